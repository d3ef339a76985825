"""The transport by itself, below httpx and httpx2, sync and async."""

from __future__ import annotations

import asyncio
import gc
import pickle
import warnings
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

import steadycall
from steadycall import AsyncTransport, Policy, Transport, _transport
from steadycall.testing import Answer, FakeClock, FakeServer, FakeSleep, answers

from .over_transport import done, sse

FAMILIES = [httpx, httpx2]
SYNC, ASYNC = "sync", "async"
DELTA = 'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
ROLE = 'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'


class Front:
    """One client over a transport, driven alike whether it is sync or async."""

    def __init__(self, family: ModuleType, mode: str) -> None:
        self.family = family
        self.mode = mode

    def send(self, method: str, url: str, *args: Any, inner: Any = None, client: Any = None, **options: Any) -> Any:
        """One request on a client of its own, read whole."""
        asked = {name: options.pop(name) for name in ("json", "headers", "timeout", "content") if name in options}
        given = {"follow_redirects": True, **(client or {})}
        if self.mode == SYNC:
            if inner is not None:
                options["inner"] = inner.HTTPTransport()
            with self.family.Client(transport=Transport(*args, **options), **given) as http:
                return http.request(method, url, **asked)

        async def work() -> Any:
            if inner is not None:
                options["inner"] = inner.AsyncHTTPTransport()
            async with self.family.AsyncClient(transport=AsyncTransport(*args, **options), **given) as http:
                return await http.request(method, url, **asked)

        return asyncio.run(work())

    def first(self, url: str, *args: Any, **options: Any) -> bytes:
        """The first piece of a stream, which is then given up."""
        if self.mode == SYNC:
            with self.family.Client(transport=Transport(*args, **options)) as http:
                with http.stream("POST", url, json={}) as response:
                    return next(response.iter_bytes(), b"")

        async def work() -> bytes:
            async with self.family.AsyncClient(transport=AsyncTransport(*args, **options)) as http:
                async with http.stream("POST", url, json={}) as response:
                    async for piece in response.aiter_bytes():
                        return piece
                    return b""

        return asyncio.run(work())


@pytest.fixture(
    params=[(family, mode) for family in FAMILIES for mode in (SYNC, ASYNC)], ids=lambda p: f"{p[0].__name__}-{p[1]}"
)
def front(request: pytest.FixtureRequest) -> Front:
    return Front(*request.param)


@pytest.fixture(params=["ours", "inner"])
def carried(request: pytest.FixtureRequest, front: Front) -> dict[str, Any]:
    return {} if request.param == "ours" else {"inner": front.family}


# What is tried again


def test_statuses_are_tried_again_and_the_last_answer_is_given(
    front: Front, carried: dict[str, Any], fake_sleep: FakeSleep, llm_server: FakeServer
) -> None:
    llm_server.answer("/x", 503, Answer(429, headers={"retry-after": "3"}), Answer(json={"a": 1}))
    response = front.send("POST", llm_server.url_for("/x"), Policy(tries=3), json={"q": 1}, **carried)
    assert (response.status_code, response.json()) == (200, {"a": 1})
    assert fake_sleep[1:] == [3.0]
    assert [request.json() for request in llm_server.requests] == [{"q": 1}] * 3

    llm_server.answer("/x", Answer(500, json={"error": {"message": "x"}}, headers={"x-should-retry": "true"}))
    response = front.send("POST", llm_server.url_for("/x"), Policy(tries=2), json={}, **carried)
    assert (response.status_code, response.json()["error"]["message"]) == (500, "x")
    assert response.headers.get_list("x-should-retry") == ["false"]
    assert response.headers["x-steadycall-stop"] == "tries"


def test_requests_arrive_as_the_client_made_them(front: Front, llm_server: FakeServer) -> None:
    llm_server.answer("/x", Answer(json={}))
    front.send("GET", llm_server.url_for("/x?a=1&b=%20"), headers={"x-mine": "é".encode("latin-1"), "host": "other"})
    front.send("PUT", llm_server.url_for("/x"), content=b"abc")
    front.send("POST", llm_server.url_for("/x"))
    get, put, post = llm_server.requests
    assert (get.method, get.query, get.body) == ("GET", "a=1&b=%20", b"")
    assert (get.headers["x-mine"], get.headers["host"]) == ("é", "other")
    assert get.headers.get_all("content-length") is None
    assert (put.method, put.body) == ("PUT", b"abc")
    assert post.headers.get_all("content-length") == ["0"]
    assert [len(request.headers.get_all("user-agent")) for request in llm_server.requests] == [1, 1, 1]


def test_redirects_are_the_clients_to_follow(front: Front, llm_server: FakeServer) -> None:
    llm_server.answer("/x", Answer(302, headers={"location": "/y"}))
    llm_server.answer("/y", Answer(json={"y": 1}))
    response = front.send("GET", llm_server.url_for("/x"))
    assert (response.json(), len(response.history)) == ({"y": 1}, 1)


def test_answers_arrive_decoded_whatever_they_are(
    front: Front, carried: dict[str, Any], llm_server: FakeServer
) -> None:
    llm_server.answer(
        "/x",
        Answer(json={"a": "é" * 2000}, content_encoding="gzip"),
        Answer(body=b"\0\1" * 70_000, headers={"content-type": "audio/mpeg"}),
        Answer(204),
        Answer(body="<html>", headers={"content-type": "text/html"}),
    )
    url = llm_server.url_for("/x")
    assert front.send("GET", url, **carried).json() == {"a": "é" * 2000}
    assert front.send("GET", url, **carried).content == b"\0\1" * 70_000
    assert front.send("DELETE", url, **carried).status_code == 204
    assert front.send("GET", url, **carried).text == "<html>"
    assert len(llm_server.requests) == 4


def test_a_record_of_a_failure_long_past_is_a_good_answer_to_who_asked_for_it(
    front: Front, carried: dict[str, Any], fake_sleep: FakeSleep, llm_server: FakeServer
) -> None:
    failed = {"id": "r", "object": "response", "status": "failed", "error": {"code": "server_error", "message": "x"}}
    llm_server.answer("/x", Answer(json=failed, truncate=9), Answer(json=failed))
    response = front.send("GET", llm_server.url_for("/x"), Policy(tries=2), **carried)
    assert (response.status_code, response.json(), len(llm_server.requests)) == (200, failed, 2)
    response = front.send("POST", llm_server.url_for("/x"), Policy(tries=2), **carried)
    assert (response.status_code, len(llm_server.requests)) == (500, 4)


def test_an_error_body_that_is_cut_short_is_still_that_error(
    front: Front, fake_sleep: FakeSleep, llm_server: FakeServer
) -> None:
    llm_server.answer("/x", answers.openai.insufficient_quota().replace(truncate=150))
    response = front.send("POST", llm_server.url_for("/x"), json={})
    assert response.status_code == 429
    assert len(llm_server.requests) == 1


# Faults


def fault(front: Front, url: str, kind: str, *args: Any, **options: Any) -> Any:
    with pytest.raises(getattr(front.family, kind)) as found:
        front.send("POST", url, *args, json={}, **options)
    return found.value


@pytest.mark.parametrize(
    ("answer", "kind", "ours"),
    [
        (Answer(never=True), "ReadTimeout", steadycall.AttemptTimeout),
        (Answer(reset="before"), "ReadError", steadycall.ReadError),
        (Answer(garbage=b"SSH-2.0\r\n\r\n"), "RemoteProtocolError", steadycall.ReadError),
        (Answer(json={"a": 1}, truncate=3), "RemoteProtocolError", steadycall.ReadError),
        (None, "ConnectError", steadycall.ConnectError),
    ],
    ids=["silent", "reset", "garbage", "truncated", "refused"],
)
def test_a_fault_is_an_error_of_the_family_and_ours(
    front: Front, answer: Answer | None, kind: str, ours: type, fake_sleep: FakeSleep
) -> None:
    with FakeServer(answer or 200) as server:
        url = server.url_for("/x")
        if answer is None:
            server.close()
        error = fault(front, url, kind, Policy(tries=2), timeout=0.2)
        assert isinstance(error, ours)
        assert (len(error.attempts), error.stop_reason) == (2, "tries")
        assert str(error.request.url) == url
        if answer is not None:
            assert len(server.requests) == 2
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.attempts) == (type(error), str(error), error.attempts)


def test_each_timeout_of_the_request_is_obeyed(front: Front, carried: dict[str, Any], fake_sleep: FakeSleep) -> None:
    with FakeServer(Answer(json={}, delay=0.3)) as server:
        timeout = front.family.Timeout(5.0, read=0.05)
        fault(front, server.url_for("/x"), "ReadTimeout", Policy(tries=1), timeout=timeout, **carried)
        assert front.send("POST", server.url_for("/x"), timeout=None, **carried).status_code == 200


def test_the_attempt_timeout_and_the_deadline_cut_an_attempt(front: Front, fake_sleep: FakeSleep) -> None:
    with FakeServer(Answer(never=True)) as server:
        error = fault(front, server.url_for("/x"), "ReadTimeout", Policy(tries=2, attempt_timeout=0.05))
        assert (error.phase, len(server.requests)) == ("attempt", 2)
        error = fault(front, server.url_for("/x"), "TimeoutException", Policy(deadline=0.05))
        assert isinstance(error, steadycall.DeadlineExceeded)
        assert (error.stage, len(server.requests)) == ("attempt", 3)


def test_what_the_users_own_transport_raises_is_raised_on_as_itself(front: Front, fake_sleep: FakeSleep) -> None:
    with FakeServer(Answer(reset="before")) as server:
        error = fault(front, server.url_for("/x"), "ReadError", Policy(tries=3), inner=front.family)
        assert type(error).__module__.partition(".")[0] == front.family.__name__
        assert len(server.requests) == 3
        assert "all 3 tries are used up" in error.__notes__[0]


def test_a_scope_without_a_request_left_refuses(front: Front, llm_server: FakeServer) -> None:
    llm_server.answer("/x", 200)
    with steadycall.scope(requests=1):
        assert front.send("POST", llm_server.url_for("/x")).status_code == 200
        error = fault(front, llm_server.url_for("/x"), "TransportError")
    assert isinstance(error, steadycall.RequestBudgetSpent)
    assert len(llm_server.requests) == 1


# A client above that sends again


def test_a_request_that_was_given_up_fails_at_once_when_it_is_sent_again(
    front: Front, fake_sleep: FakeSleep, llm_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transport, "_warned", True)
    llm_server.answer("/x", answers.openai.rate_limited(5))
    transport = Transport(Policy(deadline=2)) if front.mode == SYNC else AsyncTransport(Policy(deadline=2))

    def send(**headers: str) -> None:
        request = front.family.Request("POST", llm_server.url_for("/x"), json={}, headers=headers)
        with pytest.raises(front.family.TimeoutException) as found:
            done(transport.handle_request if front.mode == SYNC else transport.handle_async_request, request)
        assert isinstance(found.value, steadycall.DeadlineExceeded)

    send(**{"x-stainless-retry-count": "0"})
    assert len(llm_server.requests) == 1
    send(**{"x-stainless-retry-count": "1"})
    assert len(llm_server.requests) == 1
    send(**{"x-stainless-retry-count": "0"})
    assert len(llm_server.requests) == 2, "a new call of the same content is no call that is sent again"
    send(**{"idempotency-key": "one"})
    send(**{"idempotency-key": "one"})
    assert len(llm_server.requests) == 4, "a later run of a job has the key of the first, and may go through"


def test_stacked_retries_are_told_once_with_how_to_turn_them_off(
    llm_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transport, "_warned", False)
    llm_server.answer("/x", 200)
    with httpx.Client(transport=Transport()) as http, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        http.post(llm_server.url_for("/x"), headers={"x-stainless-retry-count": "0"})
        assert told == []
        for _ in range(2):
            http.post(llm_server.url_for("/x"), headers={"x-stainless-retry-count": "1"})
    assert [warning.category for warning in told] == [steadycall.RetryStackingWarning]
    assert "max_retries=0" in str(told[0].message)


# Streams


def test_the_opening_of_a_stream_is_held_back_until_content_comes(front: Front, fake_sleep: FakeSleep) -> None:
    with FakeServer(sse(ROLE, 'data: {"error": {"code": 503}}\n\n'), sse(ROLE, DELTA)) as server:
        assert ROLE.encode() in front.first(server.url_for("/x"), Policy(tries=2))
        assert len(server.requests) == 2


def test_an_opening_is_given_out_as_it_comes_when_it_is_not_to_be_held(front: Front, fake_sleep: FakeSleep) -> None:
    with FakeServer(sse(ROLE, 'data: {"error": {"code": 503}}\n\n')) as server:
        response = front.send("POST", server.url_for("/x"), hold_preamble=False)
        assert "503" in response.text
        assert len(server.requests) == 1


def test_a_stall_in_the_opening_is_tried_again_and_one_after_it_is_told(front: Front, fake_sleep: FakeSleep) -> None:
    slow = sse(ROLE, DELTA, DELTA).replace(drip=(len(ROLE), 0.4), chunked=True)
    late = sse(ROLE + DELTA, DELTA).replace(drip=(len(ROLE + DELTA), 0.4), chunked=True)
    with FakeServer(slow, late) as server:
        error = fault(front, server.url_for("/x"), "ReadTimeout", Policy(tries=3), timeout=0.1)
        assert "not asked for again" in str(error)
        assert len(server.requests) == 2


def test_a_stream_without_any_content_is_an_error_when_tries_are_spent(front: Front, fake_sleep: FakeSleep) -> None:
    with FakeServer(sse(ROLE)) as server:
        error = fault(front, server.url_for("/x"), "RemoteProtocolError", Policy(tries=2))
        assert isinstance(error, steadycall.ReadError)
        assert len(server.requests) == 2


def test_lines_of_json_are_a_stream_too(front: Front, fake_sleep: FakeSleep) -> None:
    kind = {"content-type": "application/x-ndjson"}
    opening = '{"message": {"role": "assistant", "content": ""}, "done": false}\n'
    good = opening + '{"message": {"content": "Hi"}, "done": true}\n'
    with FakeServer(
        Answer(body=opening + '{"error": "the runner stopped"}\n', headers=kind), Answer(body=good, headers=kind)
    ) as server:
        assert front.send("POST", server.url_for("/x"), Policy(tries=2)).text == good
        assert len(server.requests) == 2


def test_what_nobody_knows_is_given_out_and_so_is_a_long_opening(front: Front) -> None:
    ping = ': keep alive\n\ndata: {"type": "ping"}\n\n' * 4000 + 'data: {"type": "message_stop"}\n\n'
    for body in ("data: what is this\n\n", ping):
        with FakeServer(sse(body)) as server:
            assert front.send("POST", server.url_for("/x"), Policy(tries=1)).text == body


# Observers and settings


def test_observers_are_told_attempts_and_ends(front: Front, fake_sleep: FakeSleep) -> None:
    retried: list[steadycall.AttemptRecord] = []
    ended: list[steadycall.CallRecord] = []
    hooks: dict[str, Any] = {"on_retry": retried.append, "on_end": ended.append}
    with FakeServer(503, answers.openai.ok()) as server:
        front.send("POST", server.url_for("/x"), Policy(tries=2), **hooks)
    assert [record.status for record in retried] == [503]
    assert (ended[0].outcome, ended[0].requests, ended[0].usage["total_tokens"]) == ("answered", 2, 12)
    assert ended[0].attempts[-1].request_id == "req_test"
    with FakeServer(503) as server:
        front.send("POST", server.url_for("/x"), Policy(tries=2), **hooks)
    assert (ended[1].outcome, ended[1].requests) == ("tries", 2)


def test_no_credential_that_a_server_echoes_gets_into_records_and_errors(front: Front, fake_sleep: FakeSleep) -> None:
    ended: list[steadycall.CallRecord] = []
    echo = Answer(
        401, json={"error": {"code": "sk-secret-key-1", "message": "x"}}, headers={"x-request-id": "sk-secret-key-1"}
    )
    with FakeServer(echo) as server:
        front.send(
            "POST", server.url_for("/x"), headers={"authorization": "Bearer sk-secret-key-1"}, on_end=ended.append
        )
    with FakeServer(Answer(reset="before")) as server:
        error = fault(
            front, server.url_for("/x?key=sk-secret-key-1"), "ReadError", Policy(tries=1), on_end=ended.append
        )
    for told in (repr(ended), str(error), repr(error), repr(error.attempts)):
        assert "secret" not in told


def test_a_request_that_was_replayed_on_a_fresh_connection_counts_as_two_and_as_one_try(front: Front) -> None:
    ended: list[steadycall.CallRecord] = []
    with FakeServer(Answer(json={}), Answer(garbage=b""), Answer(json={})) as server:
        front.send("POST", server.url_for("/x"))
        front.send("POST", server.url_for("/x"), Policy(tries=1), on_end=ended.append)
    assert (ended[0].requests, ended[0].attempts[0].replays, ended[0].outcome) == (2, 1, "answered")


def test_retry_if_sees_failure_and_error_and_may_end_it(front: Front, fake_sleep: FakeSleep) -> None:
    seen: list[tuple[Any, BaseException]] = []

    def never(failure: steadycall.Failure, error: BaseException) -> bool:
        seen.append((failure.status, error))
        return False

    with FakeServer(503) as server:
        front.send("POST", server.url_for("/x"), Policy(retry_if=never))
        assert len(server.requests) == 1
    assert seen[0][0] == 503 and isinstance(seen[0][1], steadycall.HTTPStatusError)


def test_a_status_table_and_a_clock_of_ones_own_are_used(front: Front) -> None:
    clock = FakeClock()
    sleep = clock.sleep if front.mode == SYNC else clock.asleep
    with FakeServer(418, 200) as server:
        policy = Policy(retry_status=[418], base=1, deadline=60)
        assert front.send("POST", server.url_for("/x"), policy, clock=clock, sleep=sleep, rng=1).status_code == 200
    assert len(clock.sleeps) == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"inner": object()}, "inner"),
        ({"hold_preamble": "yes"}, "hold_preamble"),
        ({"inner": httpx.HTTPTransport(), "proxy": "http://p"}, "proxy"),
        ({"sleep": 3}, "sleep"),
        ({"on_retry": 3}, "on_retry"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(steadycall.ConfigError) as found:
        Transport(**options)
    assert found.value.field == field


def test_something_that_is_no_request_of_httpx_is_refused_by_name() -> None:
    class Odd:
        def __init__(self) -> None:
            self.headers: dict[str, str] = {}

        def read(self) -> bytes:
            return b""

    with pytest.raises(steadycall.ConfigError, match="httpx or httpx2"):
        Transport().handle_request(Odd())


def test_a_request_of_a_class_of_ones_own_is_of_its_parents_family(front: Front, llm_server: FakeServer) -> None:
    class Mine(front.family.Request):  # type: ignore[name-defined, misc]
        pass

    llm_server.answer("/x", Answer(json={}))
    request = Mine("POST", llm_server.url_for("/x"), json={})
    sent = Transport().handle_request if front.mode == SYNC else AsyncTransport().handle_async_request
    assert isinstance(done(sent, request), front.family.Response)


def test_both_pairs_of_context_managers_close_the_inner_transport(front: Front) -> None:
    closed: list[str] = []

    class Sync:
        def handle_request(self, request: Any) -> Any: ...
        def close(self) -> None:
            closed.append("sync")

    class Async:
        async def handle_async_request(self, request: Any) -> Any: ...
        async def aclose(self) -> None:
            closed.append("async")

    with Transport(inner=Sync()):
        pass
    Transport(inner=Sync()).close()

    async def work() -> None:
        async with AsyncTransport(inner=Async()):
            pass
        await AsyncTransport(inner=Async()).aclose()

    asyncio.run(work())
    assert closed == ["sync", "sync", "async", "async"]


# Nothing leaks


def test_a_stream_that_is_given_up_closes_its_connection(front: Front) -> None:
    endless = sse(DELTA * 500).replace(drip=(len(DELTA), 0.02), chunked=True)
    with FakeServer(endless) as server:
        assert front.first(server.url_for("/x")).startswith(b"data:")
        server.wait_for(lambda server: server.aborted == 1 and server.connections_open == 0)


def test_a_response_that_is_dropped_unread_closes_its_connection(front: Front) -> None:
    endless = sse(DELTA * 500).replace(drip=(len(DELTA), 0.02), chunked=True)
    with FakeServer(endless) as server:

        def drop() -> None:
            request = front.family.Request("POST", server.url_for("/x"), json={})
            if front.mode == SYNC:
                Transport().handle_request(request)
            else:
                asyncio.run(AsyncTransport().handle_async_request(request))

        drop()
        gc.collect()
        server.wait_for(lambda server: server.connections_open == 0)


def test_a_connection_is_kept_for_the_next_request(front: Front, llm_server: FakeServer) -> None:
    llm_server.answer("/x", Answer(json={}), sse(DELTA, "data: [DONE]\n\n").replace(chunked=True), Answer(json={}))
    for _ in range(3):
        front.send("POST", llm_server.url_for("/x"))
    assert llm_server.connections == 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("what", ["head", "opening", "body"])
def test_a_cancelled_request_closes_its_connection(family: ModuleType, what: str) -> None:
    endless = {"head": Answer(never=True), "opening": sse(ROLE * 500), "body": sse(DELTA * 500)}[what]
    with FakeServer(endless if what == "head" else endless.replace(drip=(40, 0.02), chunked=True)) as server:

        async def work() -> None:
            async with family.AsyncClient(transport=AsyncTransport()) as http:
                task = asyncio.create_task(http.post(server.url_for("/x"), json={}))
                await server.await_for(lambda server: server.in_flight == 1)
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await server.await_for(lambda server: server.aborted == 1)

        asyncio.run(work())
        assert len(server.requests) == 1


def test_a_validator_is_refused_which_a_transport_could_not_ask() -> None:
    with pytest.raises(steadycall.ConfigError, match="validate must be left out"):
        Transport(Policy().bind(validate=bool))


def test_a_stream_that_the_deadline_cuts_ends_as_deadline_exceeded(front: Front, llm_server: FakeServer) -> None:
    slow = Answer(headers={"content-type": "text/event-stream"}, body='data: {"x":1}\n\n' * 50, drip=(14, 0.05))
    llm_server.answer("/x", slow)
    error = fault(front, llm_server.url_for("/x"), "TimeoutException", Policy(deadline=0.3))
    assert isinstance(error, steadycall.DeadlineExceeded)
    assert error.stage == "attempt"
    assert error.stop_reason == "deadline"
    assert "The deadline cut the answer" in str(error)
    assert len(llm_server.requests) == 1
