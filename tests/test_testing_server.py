"""FakeServer: answers by script, and misbehaves exactly as told."""

import asyncio
import gzip
import http.client
import json
import os
import select
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from steadycall.testing import Answer, FakeServer, Request, answers


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


class Raw:
    """A client that sees bytes and how the connection ended."""

    def __init__(self, server: FakeServer) -> None:
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        self.sock = socket.create_connection((parts.hostname, parts.port or 0), timeout=5)

    def send(self, path: str = "/x", method: str = "GET", extra: str = "", body: bytes = b"") -> None:
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nhost: test\r\n{extra}\r\n".encode() + body)

    def rest(self) -> tuple[bytes, str]:
        """All that comes, and "closed" or "reset"."""
        got = b""
        try:
            while data := self.sock.recv(4096):
                got += data
            return got, "closed"
        except ConnectionResetError:
            return got, "reset"
        finally:
            self.sock.close()


def exchange(server: FakeServer, *steps: Any) -> tuple[bytes, str]:
    server.answer("/x", *steps)
    raw = Raw(server)
    raw.send()
    return raw.rest()


def ask(server: FakeServer, path: str = "/x", payload: object = None) -> tuple[int, bytes]:
    data = None if payload is None else json.dumps(payload).encode()
    try:
        with urllib.request.urlopen(server.url_for(path), data, timeout=5) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


# Scripts


def test_a_script_is_played_in_order_and_its_last_answer_is_repeated(server: FakeServer) -> None:
    server.script("/x", [503, Answer(429), Answer(json={"ok": True})])
    assert [ask(server)[0] for _ in range(5)] == [503, 429, 200, 200, 200]


def test_then_takes_over_when_the_script_has_ended(server: FakeServer) -> None:
    server.script("/x", [200], then=Answer(410))
    assert [ask(server)[0] for _ in range(3)] == [200, 410, 410]


def test_every_path_has_its_own_script_and_the_star_has_the_rest(server: FakeServer) -> None:
    server.answer("/a", 201, 202)
    server.answer("*", 203)
    assert [ask(server, path)[0] for path in ("/a", "/b", "/a?q=1", "/c")] == [201, 203, 202, 203]


def test_a_new_script_replaces_the_old_one(server: FakeServer) -> None:
    server.answer("/x", 500)
    server.answer("/x", 201)
    assert ask(server)[0] == 201


def test_a_path_without_a_script_is_a_404_that_says_so(server: FakeServer) -> None:
    status, body = ask(server, "/nowhere")
    assert status == 404
    assert "no script for GET /nowhere" in json.loads(body)["error"]["message"]


def test_answers_given_at_the_start_are_for_every_path() -> None:
    with FakeServer(503, Answer(json=1)) as server:
        assert [ask(server, path) for path in ("/a", "/b")] == [(503, b""), (200, b"1")]


def test_a_function_in_a_script_sees_the_request(server: FakeServer) -> None:
    server.answer("/x", lambda request: Answer(json=request.json()))
    assert ask(server, payload={"echo": 1}) == (200, b'{"echo": 1}')


def test_what_a_scripted_function_raises_reaches_the_test() -> None:
    def broken(request: Request) -> Answer:
        raise LookupError(request.path)

    with pytest.raises(LookupError, match="/x"), FakeServer(broken) as server:
        assert ask(server)[0] == 500


def test_a_scripted_function_that_gives_no_answer_fails_the_test() -> None:
    with pytest.raises(ValueError, match="status"), FakeServer(lambda request: None) as server:  # type: ignore[arg-type,return-value]  # the mistake under test
        assert ask(server)[0] == 500
    assert server.in_flight == 0


def test_a_script_that_cannot_be_played_is_refused(server: FakeServer) -> None:
    with pytest.raises(ValueError):
        server.script("/x", [])
    with pytest.raises(TypeError):
        server.answer("/x", {"status": 200})  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 99},
        {"status": "200"},
        {"json": 1, "body": b"1"},
        {"big": 1},
        {"big": 10, "json": 1},
        {"reset": "later"},
        {"reset": "body"},
        {"truncate": 1},
        {"content_encoding": "br"},
        {"drip": (0, 1.0), "body": b"1"},
        {"body": [1]},
        {"headers": {"x-note": "na\u00efve \u2014 dash"}},
        {"headers": {"x-note": "a\r\nx-evil: 1"}},
        {"headers": {"x-note": "a\x00"}},
        {"headers": [("x-note", "\x7f")]},
        {"headers": {"x note": "a"}},
        {"headers": {"": "a"}},
        {"headers": {"x-n\u00f6te": "a"}},
        {"headers": {3: "a"}},
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Answer(**fields)


def test_an_answer_of_what_json_cannot_write_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON"):
        Answer(json={1, 2})


def test_a_header_value_may_be_any_latin_1_text_bytes_or_number(server: FakeServer) -> None:
    server.answer("*", Answer(headers=[("x-a", "caf\u00e9\tau lait"), ("x-b", b"\xff"), ("retry-after", 5)]))  # type: ignore[list-item]  # what people write
    with urllib.request.urlopen(server.url_for("/x"), timeout=5) as reply:
        headers = reply.headers
    assert (headers["x-a"], headers["x-b"], headers["retry-after"]) == ("caf\u00e9\tau lait", "\u00ff", "5")


def test_replace_gives_a_changed_copy() -> None:
    slow = answers.openai.ok().replace(delay=1.0)
    assert (slow.delay, slow.status, slow.json) == (1.0, 200, answers.openai.ok().json)


# What a request looked like


def test_a_request_is_recorded_whole(server: FakeServer) -> None:
    server.answer("/v1/x", 200)
    before = time.monotonic()
    request = urllib.request.Request(
        server.url_for("/v1/x?key=1&b=%20"), b'{"n": 1}', {"X-Key": "abc", "Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=5).close()
    (seen,) = server.requests
    assert (seen.method, seen.path, seen.query) == ("POST", "/v1/x", "key=1&b=%20")
    assert seen.headers["x-key"] == seen.headers["X-KEY"] == "abc"
    assert seen.body == b'{"n": 1}'
    assert seen.json() == {"n": 1}
    assert seen.connection == 1
    assert before <= seen.received_at <= time.monotonic()


def test_neither_headers_nor_body_nor_query_show_in_a_requests_repr(server: FakeServer) -> None:
    raw = Raw(server)
    raw.send("/x?key=SECRET", "POST", "authorization: SECRET\r\ncontent-length: 6\r\nconnection: close\r\n", b"SECRET")
    raw.rest()
    assert "SECRET" not in repr(server.requests[0])


def test_a_chunked_request_body_is_put_together(server: FakeServer) -> None:
    server.answer("/x", Answer(close=True))
    raw = Raw(server)
    raw.send(
        method="POST", extra="transfer-encoding: chunked\r\n", body=b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nt: 1\r\n\r\n"
    )
    raw.rest()
    assert server.requests[0].body == b"abcdefg"


def test_a_large_request_body_arrives_whole(server: FakeServer) -> None:
    server.answer("/x", lambda request: Answer(json=len(request.body)))
    assert ask(server, payload="a" * 3_000_000) == (200, b"3000002")


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(server: FakeServer) -> None:
    server.answer("/x", Answer(close=True))
    raw = Raw(server)
    raw.send(method="POST", extra="expect: 100-continue\r\ncontent-length: 2\r\n")
    assert raw.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    raw.sock.sendall(b"ok")
    raw.rest()
    assert server.requests[0].body == b"ok"


def test_a_proxied_request_keeps_its_target_and_is_scripted_by_its_path(server: FakeServer) -> None:
    server.answer("/x", Answer(201, close=True))
    raw = Raw(server)
    raw.send("http://elsewhere.test/x?q=1")
    assert raw.rest()[0].startswith(b"HTTP/1.1 201")
    assert server.requests[0].target == "http://elsewhere.test/x?q=1"
    assert (server.requests[0].path, server.requests[0].query) == ("/x", "q=1")


def test_bytes_that_are_no_http_get_a_400_and_are_not_recorded(server: FakeServer) -> None:
    raw = Raw(server)
    raw.sock.sendall(b"\x16\x03\x01 a TLS handshake")
    assert raw.rest()[0].startswith(b"HTTP/1.1 400")
    assert server.requests == []


# Well-behaved answers


def test_an_answer_has_its_status_headers_and_body(server: FakeServer) -> None:
    got, _ = exchange(server, Answer(429, headers={"Retry-After": "3"}, json={"a": 1}, close=True))
    assert got == (
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\ncontent-type: application/json\r\n"
        b'content-length: 8\r\nconnection: close\r\n\r\n{"a": 1}'
    )


def test_a_header_can_be_sent_twice(server: FakeServer) -> None:
    got, _ = exchange(server, Answer(headers=[("x-a", "1"), ("x-a", "2")], close=True))
    assert got.count(b"x-a: ") == 2


def test_a_status_without_a_name_is_sent_all_the_same(server: FakeServer) -> None:
    server.answer("/x", 529)
    assert ask(server)[0] == 529


def test_a_connection_is_kept_for_the_next_request(server: FakeServer) -> None:
    server.answer("/x", Answer(json=1))
    client = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=5)
    for _ in range(3):
        client.request("GET", "/x")
        assert client.getresponse().read() == b"1"
    client.close()
    assert [request.connection for request in server.requests] == [1, 1, 1]
    assert server.connections == 1


def test_a_head_request_gets_the_headers_alone(server: FakeServer) -> None:
    server.answer("/x", Answer(body=b"12345", close=True))
    raw = Raw(server)
    raw.send(method="HEAD", extra="connection: close\r\n")
    got, _ = raw.rest()
    assert b"content-length: 5" in got and got.endswith(b"\r\n\r\n")


def test_a_chunked_answer_is_the_same_to_the_client(server: FakeServer) -> None:
    server.answer("/x", Answer(json=[1, 2], chunked=True))
    assert ask(server) == (200, b"[1, 2]")


def test_an_empty_chunked_answer_has_an_end(server: FakeServer) -> None:
    server.answer("/x", Answer(chunked=True))
    assert ask(server) == (200, b"")


def test_a_compressed_answer_says_so_and_unpacks_to_the_body(server: FakeServer) -> None:
    server.answer("/x", Answer(json=[1], content_encoding="gzip"), Answer(json=[2], content_encoding="deflate"))
    assert gzip.decompress(ask(server)[1]) == b"[1]"
    assert zlib.decompress(ask(server)[1]) == b"[2]"


@pytest.mark.parametrize("size", [2, 3, 262_146, 262_147, 1_000_003])
def test_a_big_body_is_json_of_exactly_that_many_bytes(server: FakeServer, size: int) -> None:
    server.answer("/x", Answer(big=size))
    _, body = ask(server)
    assert len(body) == size
    assert len(json.loads(body)) == size - 2


def test_a_big_compressed_body_is_small_on_the_wire(server: FakeServer) -> None:
    server.answer("/x", Answer(big=10_000_000, content_encoding="gzip"))
    _, body = ask(server)
    assert len(body) < 50_000
    assert len(gzip.decompress(body)) == 10_000_000


def test_a_delay_comes_before_the_first_byte(server: FakeServer) -> None:
    server.answer("/x", Answer(delay=0.02))
    start = time.monotonic()
    ask(server)
    assert time.monotonic() - start >= 0.02


def test_a_drip_sends_the_body_in_pieces_with_a_pause_between(server: FakeServer) -> None:
    server.answer("/x", Answer(json=[1, 2, 3], drip=(3, 0.01)))
    start = time.monotonic()
    assert ask(server) == (200, b"[1, 2, 3]")
    assert time.monotonic() - start >= 0.02


# Misbehaviour


def test_a_reset_before_the_answer_sends_nothing(server: FakeServer) -> None:
    assert exchange(server, Answer(json=1, reset="before")) == (b"", "reset")


def test_a_reset_in_the_headers_sends_half_of_them(server: FakeServer) -> None:
    got, end = exchange(server, Answer(json=1, reset="headers"))
    assert got.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\n\r\n" not in got
    assert end == "reset"


def test_a_reset_in_the_body_sends_the_headers_and_half_of_the_body(server: FakeServer) -> None:
    got, end = exchange(server, Answer(body=b"x" * 100, reset="body"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"content-length: 100" in head
    assert (len(body), end) == (50, "reset")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_truncated_body_is_cut_and_the_connection_closed(server: FakeServer, chunked: bool) -> None:
    server.answer("/x", Answer(json=[1, 2, 3], truncate=4, chunked=chunked))
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(server)
    assert caught.value.partial == b"[1, "


def test_the_connection_ends_with_a_truncated_body_though_the_client_would_keep_it(server: FakeServer) -> None:
    got, end = exchange(server, Answer(body=b"123456", truncate=2))
    assert got.endswith(b"\r\n\r\n12") and end == "closed"


def test_garbage_is_sent_as_it_is(server: FakeServer) -> None:
    assert exchange(server, Answer(garbage=b"\x00\xffSSH-2.0")) == (b"\x00\xffSSH-2.0", "closed")


def test_empty_garbage_closes_without_a_word(server: FakeServer) -> None:
    assert exchange(server, Answer(garbage=b"")) == (b"", "closed")


def test_an_announced_close_is_kept(server: FakeServer) -> None:
    got, end = exchange(server, Answer(close=True))
    assert b"connection: close" in got and end == "closed"


@pytest.mark.parametrize("idle", [0, 0.01])
def test_an_idle_connection_is_closed_without_announcement(server: FakeServer, idle: float) -> None:
    got, end = exchange(server, Answer(json=1, close_idle=idle))
    assert b"connection:" not in got and got.endswith(b"1")
    assert end == "closed"


def test_a_request_within_the_idle_time_is_still_answered(server: FakeServer) -> None:
    server.answer("/x", Answer(json=1, close_idle=5))
    raw = Raw(server)
    for _ in range(2):
        raw.send()
        assert raw.sock.recv(1000).endswith(b"1")
    raw.sock.close()


# Counters


def test_a_client_that_leaves_while_unanswered_is_counted_as_aborted(server: FakeServer) -> None:
    server.answer("/x", Answer(never=True))
    raw = Raw(server)
    raw.send()
    server.wait_for(lambda s: s.in_flight == 1)
    assert server.aborted == 0
    raw.sock.close()
    server.wait_for(lambda s: s.aborted == 1)
    assert server.in_flight == 0
    server.wait_for(lambda s: s.connections_open == 0)


@pytest.mark.parametrize("slow", [Answer(delay=60), Answer(body=b"abcdef", drip=(1, 60.0)), Answer(big=2**40)])
def test_a_client_that_leaves_during_a_slow_answer_is_noticed_at_once(server: FakeServer, slow: Answer) -> None:
    server.answer("/x", slow)
    raw = Raw(server)
    raw.send()
    server.wait_for(lambda s: s.in_flight == 1)
    raw.sock.close()
    server.wait_for(lambda s: s.aborted == 1)


def test_a_client_that_leaves_after_its_answer_is_not_counted(server: FakeServer) -> None:
    server.answer("/x", Answer(json=1))
    ask(server)
    server.wait_for(lambda s: s.connections_open == 0)
    assert (server.aborted, server.in_flight) == (0, 0)


def test_a_client_that_holds_its_answer_never_finds_it_in_flight(server: FakeServer) -> None:
    server.answer("/x", Answer(json=1))
    raw = Raw(server)
    for _ in range(300):
        raw.send()
        raw.sock.recv(1000)
        assert server.in_flight == 0
    raw.sock.close()


def test_waiting_in_vain_is_an_assertion_error_that_shows_the_counts(server: FakeServer) -> None:
    with pytest.raises(AssertionError, match=r"0 requests, 0 in flight, 0 aborted, 0 of 0 connections open"):
        server.wait_for(lambda s: s.requests, timeout=0.01)


def test_waiting_in_a_coroutine_leaves_the_loop_running(server: FakeServer) -> None:
    server.answer("/x", Answer(never=True))

    async def main() -> None:
        parts = urlsplit(server.url)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        waiting = asyncio.create_task(server.await_for(lambda s: s.in_flight == 1))
        await asyncio.sleep(0)
        writer.write(b"GET /x HTTP/1.1\r\n\r\n")
        assert await waiting
        writer.close()
        assert await server.await_for(lambda s: s.aborted == 1)
        with pytest.raises(AssertionError):
            await server.await_for(lambda s: False, timeout=0.01)

    asyncio.run(main())


def test_a_hundred_connections_are_answered_at_once(server: FakeServer) -> None:
    gate = threading.Event()

    def wait(request: Request) -> Answer:
        gate.wait(5)
        return Answer(json=1)

    server.answer("/x", wait)
    clients = [Raw(server) for _ in range(100)]
    for client in clients:
        client.send()
    server.wait_for(lambda s: s.in_flight == 100)
    gate.set()
    for client in clients:
        assert client.sock.recv(1000).endswith(b"1")
        client.sock.close()


# Life


def test_a_closed_server_leaves_no_thread_and_no_open_port() -> None:
    before = threading.active_count()
    with FakeServer(Answer(json=1)) as server:
        parts = urlsplit(server.url)
        idle = Raw(server)
        idle.send()
        idle.sock.recv(1000)
        stuck = Raw(server)
        server.answer("/x", Answer(never=True))
        stuck.send()
        server.wait_for(lambda s: s.in_flight == 1)
        assert threading.active_count() > before
    assert threading.active_count() == before
    assert idle.rest() == stuck.rest() == (b"", "closed")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname or "", parts.port or 0))
    assert server.aborted == 0


def test_close_may_be_called_again_and_before_the_start() -> None:
    server = FakeServer()
    server.start()
    server.close()
    server.close()
    FakeServer().close()


def test_a_server_that_does_not_run_has_no_url() -> None:
    with pytest.raises(RuntimeError, match="with FakeServer"):
        FakeServer().url  # noqa: B018  # reading it is the point


def test_async_with_starts_and_closes_too() -> None:
    async def main() -> FakeServer:
        async with FakeServer(Answer(json=1)) as server:
            assert await asyncio.to_thread(ask, server) == (200, b"1")
        return server

    server = asyncio.run(main())
    assert server.connections_open == 0


def test_a_given_port_is_used() -> None:
    with FakeServer() as first:
        port = urlsplit(first.url).port or 0
    with FakeServer(port=port) as second:
        assert second.url == f"http://127.0.0.1:{port}"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_neither_stops_the_server_nor_hides_its_end() -> None:
    with FakeServer() as server:
        server.script("*", [Answer(json=1)] * 3, then=Answer(json=1, close_idle=0))
        kept, ended = Raw(server), Raw(server)
        for raw in (kept, ended):
            raw.send()
            raw.sock.recv(1000)
        hold_child, let_child_go = os.pipe()
        child_closed, tell_parent = os.pipe()
        child = os.fork()
        if child == 0:
            server.close()
            os.write(tell_parent, b"x")
            os.close(let_child_go)
            os.read(hold_child, 1)
            os._exit(0)
        assert os.read(child_closed, 1) == b"x"
        for raw in (kept, ended):
            raw.send()
            assert raw.sock.recv(1000).endswith(b"1")
        assert select.select([ended.sock], [], [], 2)[0], "the end of an answered connection was not seen"
        assert ended.rest() == (b"", "closed")
        server.close()
        # The child still holds copies of the server's sockets.
        assert select.select([kept.sock], [], [], 2)[0], "the end of the connection was not seen"
        assert kept.rest() == (b"", "closed")
        for descriptor in (let_child_go, hold_child, child_closed, tell_parent):
            os.close(descriptor)
        os.waitpid(child, 0)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")
def test_a_server_with_tls_speaks_https(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subject = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make.split(), *subject], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with FakeServer(Answer(json=1), tls=context) as server:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(server.url, timeout=5, context=trusting) as reply:
            assert reply.read() == b"1"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(server.url, timeout=5)
        server.wait_for(lambda s: s.connections_open == 0)


# Ready-made answers


def every_answer() -> list[tuple[str, Answer]]:
    return [
        (f"{provider}.{name}", getattr(shapes, name)())
        for provider in answers.__all__
        for shapes in [getattr(answers, provider)]
        for name in dir(shapes)
        if not name.startswith("_") and callable(getattr(shapes, name))
    ]


@pytest.mark.parametrize(("name", "answer"), every_answer())
def test_a_ready_made_answer_has_a_body_that_agrees_with_its_status(name: str, answer: Answer) -> None:
    json.dumps(answer.json)
    assert (answer.status == 200) == ("error" not in answer.json)
    if name.startswith("gemini") and answer.status != 200:
        assert answer.json["error"]["code"] == answer.status


def test_gemini_tells_its_wait_in_the_body() -> None:
    details = answers.gemini.rate_limited(retry_delay="2.5s").json["error"]["details"]
    assert details[-1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}
    assert len(answers.gemini.rate_limited(retry_delay=None).json["error"]["details"]) == 1


def test_a_daily_quota_is_named_by_its_id() -> None:
    details = answers.gemini.daily_quota().json["error"]["details"]
    assert "PerDay" in details[0]["violations"][0]["quotaId"]


def test_retry_after_is_a_header_at_openai_and_anthropic() -> None:
    for shapes in (answers.openai, answers.anthropic):
        assert ("retry-after", "7") in shapes.rate_limited(retry_after=7).headers
