"""A client's streams: what is sent for them, by which route, and who is told. What a stream itself does is test_streams'."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

import steadycall
from steadycall import (
    AsyncClient,
    CircuitBreaker,
    Client,
    ConcurrencyLimit,
    Policy,
    RateLimit,
    Route,
    StreamInterrupted,
    StreamTimeout,
)
from steadycall.testing import Answer, FakeClock, FakeServer, answers

PATH = "/v1/chat/completions"
PAYLOAD = {"model": "a-model", "stream": True, "messages": []}


def sse(*events: str) -> Answer:
    return Answer(headers={"content-type": "text/event-stream"}, body="".join(f"data: {one}\n\n" for one in events))


def delta(text: str) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})


WHOLE = sse(delta("Hello, "), delta("you."), "[DONE]")
BROKEN = sse(delta("Hello, "))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["sync", "async"])
def reading(request):
    """Reads all texts of a stream of a client with these settings."""

    def read(base_url, *, path=PATH, payload=PAYLOAD, options=(), **settings):
        def made(kind):
            client = kind(base_url, **settings)
            return client, client.stream(path, payload, **dict(options))

        if request.param == "sync":
            _, stream = made(Client)
            with stream as events:
                return [event.text for event in events], stream

        async def main():
            _, stream = made(AsyncClient)
            async with stream as events:
                return [event.text async for event in events], stream

        return asyncio.run(main())

    return read


def test_a_stream_is_a_request_of_the_client(reading):
    with FakeServer(WHOLE) as server:
        texts, _ = reading(
            f"{server.url}?v=1", headers={"authorization": "k"}, options={"headers": {"x": "1"}, "idempotency_key": "i"}
        )
        request = server.requests[0]
    assert texts[:2] == ["Hello, ", "you."]
    assert (request.path, request.query) == (PATH, "v=1")
    assert request.json() == PAYLOAD
    assert [request.headers[name] for name in ("authorization", "x", "idempotency-key")] == ["k", "1", "i"]
    assert request.headers["content-type"] == "application/json"


def test_what_fails_before_the_first_content_is_tried_again_with_fresh_headers(reading, clock):
    keys = iter(["first", "second"])
    with FakeServer(answers.openai.overloaded(), WHOLE) as server:
        texts, stream = reading(
            server.url, headers=lambda: {"authorization": next(keys)}, sleep=clock.sleep, clock=clock, rng=1
        )
        assert [request.headers["authorization"] for request in server.requests] == ["first", "second"]
    assert "".join(texts).startswith("Hello, you.")
    assert [attempt.status for attempt in stream.attempts] == [503, 200]


def test_another_route_is_tried_before_the_first_delta_and_never_after_it(reading, clock):
    settings = {"sleep": clock.sleep, "clock": clock, "rng": 1, "policy": Policy(tries=2)}
    with FakeServer(answers.openai.server_error()) as first, FakeServer(WHOLE) as second:
        texts, stream = reading(first.url, headers={"authorization": "first"}, fallback=[Route(second.url)], **settings)
        assert "".join(texts).startswith("Hello, you.")
        assert [attempt.number for attempt in stream.attempts] == [1, 2, 3]
        assert "authorization" not in second.requests[0].headers
    with FakeServer(BROKEN) as first, FakeServer(WHOLE) as second:
        with pytest.raises(StreamInterrupted) as broken:
            reading(first.url, fallback=[Route(second.url)], **settings)
        assert broken.value.partial == "Hello, "
        assert second.requests == []


def test_the_gates_hold_for_streams(reading, clock):
    settings = {"sleep": clock.sleep, "clock": clock, "rng": 1}
    with FakeServer(answers.openai.rate_limited(20), WHOLE) as server:
        reading(server.url, rate=RateLimit(requests_per_minute=600, burst=1), policy=Policy(), **settings)
    assert clock.sleeps == pytest.approx([20.0])


def test_an_open_circuit_refuses_a_stream_and_a_finished_one_closes_it(clock):
    with FakeServer(answers.openai.server_error(), WHOLE) as server:
        client = Client(
            server.url, breaker=CircuitBreaker(failure_threshold=1), policy=Policy(tries=1), clock=clock,
        )  # fmt: skip
        with pytest.raises(steadycall.HTTPStatusError):
            client.stream(PATH, PAYLOAD).collect()
        with pytest.raises(steadycall.CircuitOpen):
            client.stream(PATH, PAYLOAD).collect()
        clock.advance(31)
        assert client.stream(PATH, PAYLOAD).collect().text == "Hello, you."
        assert client.circuit("a-model").state == "closed"


def test_a_stream_without_its_end_is_a_failure_for_the_breaker(clock):
    with FakeServer(BROKEN) as server:
        client = Client(server.url, breaker=CircuitBreaker(failure_threshold=1), policy=Policy(tries=1), clock=clock)
        with pytest.raises(StreamInterrupted):
            client.stream(PATH, PAYLOAD).collect()
        assert client.circuit("a-model").state == "open"


def test_a_reader_who_leaves_frees_the_slot():
    with FakeServer(WHOLE.replace(drip=(60, 0.2))) as server:
        client = Client(server.url, concurrency=ConcurrencyLimit(1))
        with client.stream(PATH, PAYLOAD) as events:
            next(iter(events))
            assert client.in_flight == 1
        assert client.in_flight == 0
        server.wait_for(lambda s: s.aborted == 1)


def test_tokens_told_by_the_way_do_not_settle_a_stream_that_was_left(clock):
    began = 'data: {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}\n\n'
    part = 'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}\n\n'
    with FakeServer(WHOLE.replace(body=began + part * 500, drip=(300, 0.02))) as server:
        client = Client(server.url, rate=RateLimit(tokens_per_minute=120), sleep=clock.sleep, clock=clock)
        for _ in range(2):
            with client.stream(PATH, PAYLOAD, tokens=100) as events:
                next(iter(events))
    assert clock.sleeps == pytest.approx([40.0])


def test_observers_are_told_of_the_first_delta(reading):
    seen, ends = [], []
    with FakeServer(WHOLE) as server:
        reading(server.url, on_event=seen.append, on_end=ends.append)
    assert [event.name for event in seen] == ["attempt_started", "first_delta", "attempt_ended"]
    assert {event.model for event in seen} == {"a-model"}
    assert [end.outcome for end in ends] == ["answered"]


def test_observers_are_told_of_every_wait(reading, clock):
    seen = []
    with FakeServer(answers.openai.server_error(), WHOLE) as server:
        reading(
            server.url, on_event=seen.append, rate=RateLimit(requests_per_minute=60, burst=1), retry_budget=None,
            policy=Policy(base=0.001), sleep=clock.sleep, clock=clock, rng=1,
        )  # fmt: skip
    assert [event.name for event in seen] == [
        *("attempt_started", "attempt_ended", "waiting"),
        *("waiting", "admitted", "attempt_started", "first_delta", "attempt_ended"),
    ]
    assert seen[2].wait == clock.sleeps[0]
    assert seen[3].wait == pytest.approx(clock.sleeps[1])


def test_a_deadline_of_the_call_bounds_a_stream(reading):
    with FakeServer(Answer(never=True)) as server:
        with pytest.raises(steadycall.DeadlineExceeded) as late:
            reading(server.url, options={"deadline": 0.2})
    assert late.value.stage == "attempt"


def test_the_clients_stream_timeout_holds_where_the_call_gives_none(reading):
    with FakeServer(Answer(never=True)) as server:
        with pytest.raises(steadycall.AttemptTimeout, match="first_event"):
            reading(server.url, stream_timeout=StreamTimeout(first_event=0.1), policy=Policy(tries=1))


def test_a_closed_client_gives_no_stream(reading):
    client = Client("https://a.test")
    client.close()
    with pytest.raises(steadycall.Closed):
        client.stream(PATH, PAYLOAD)
    with pytest.raises(steadycall.ConfigError, match="stream_timeout"):
        reading("https://a.test", stream_timeout=5)


CHOICE = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]})
CANDIDATE = json.dumps({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]})


@pytest.mark.parametrize("encode", [dict, lambda payload: json.dumps(payload).encode()], ids=["dict", "bytes"])
@pytest.mark.parametrize(
    ("event", "asked"), [(CHOICE, {"n": 2}), (CANDIDATE, {"generationConfig": {"candidateCount": 2}})]
)
def test_all_choices_asked_for_must_end(reading, event, asked, encode):
    with FakeServer(sse(event)) as server:
        texts, _ = reading(server.url, payload=encode(PAYLOAD), policy=Policy(tries=1))
        assert texts == ["a"]
        with pytest.raises(StreamInterrupted):
            reading(server.url, payload=encode(PAYLOAD | asked), policy=Policy(tries=1))


def test_a_redirect_to_the_same_origin_is_followed_and_one_to_another_is_an_answer(reading):
    to = Answer(307, headers={"location": "/elsewhere"})
    away = Answer(308, headers={"location": "http://localhost:1/elsewhere"})
    with FakeServer(to, WHOLE) as server:
        texts, _ = reading(server.url)
        assert "".join(texts) == "Hello, you."
        assert [(request.method, request.path) for request in server.requests] == [
            ("POST", PATH),
            ("POST", "/elsewhere"),
        ]
        assert server.requests[1].json() == PAYLOAD
    with FakeServer(away) as server:
        with pytest.raises(steadycall.HTTPStatusError, match="HTTP 308"):
            reading(server.url, policy=Policy(tries=1))


def test_errors_say_what_call_says(reading):
    with FakeServer(answers.openai.bad_key()) as server:
        host = server.url.removeprefix("http://")
        with pytest.raises(steadycall.HTTPStatusError) as refused:
            reading(server.url)
        with pytest.raises(steadycall.HTTPStatusError) as told:
            Client(server.url).call(PATH, PAYLOAD)
        assert str(refused.value) == str(told.value)
        assert str(refused.value).startswith(f"HTTP 401 Unauthorized from {host}")
    with pytest.raises(steadycall.ConnectError) as unreached:
        reading(server.url, policy=Policy(tries=1))
    with pytest.raises(steadycall.ConnectError) as told:
        Client(server.url, policy=Policy(tries=1)).call(PATH, PAYLOAD)
    assert str(unreached.value) == str(told.value)


def test_an_interruption_says_what_broke_and_is_not_told_as_unreachable(reading):
    error = json.dumps({"error": {"type": "server_error", "code": "server_error", "message": "x"}})
    with FakeServer(sse(delta("Hi"), error)) as server:
        with pytest.raises(StreamInterrupted) as broken:
            reading(server.url)
        assert server.url.removeprefix("http://") in str(broken.value)
    assert broken.value.safe_message == "The answer broke off before its end. Please try again later."


def test_headers_that_take_the_whole_deadline_are_told_as_no_queue(reading, clock):
    def slow():
        clock.advance(10)
        return {}

    with FakeServer(WHOLE) as server:
        with pytest.raises(steadycall.DeadlineExceeded) as late:
            reading(server.url, headers=slow, options={"deadline": 5}, clock=clock, sleep=clock.sleep, concurrency=1)
        assert (late.value.stage, late.value.sent, server.requests) == ("before_attempt", "no", [])


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("timeout", value) for value in (5, 0, "5")],
        *[("tokens", value) for value in (-1, 1.5, True)],
        *[("partition", value) for value in (5, [])],
        ("path", 5),
    ],
)
def test_a_bad_argument_is_refused_when_it_is_given(client, field, value):
    arguments = {"path": PATH, "payload": PAYLOAD, field: value}
    with pytest.raises(steadycall.ConfigError) as found:
        client("https://a.test").stream(**arguments)
    assert found.value.field == field


def test_text_is_that_of_the_events_that_were_given_out():
    two = sse("one", "two")
    with FakeServer(WHOLE, WHOLE, two, two) as server:
        client = Client(server.url)
        for first, whole in (("Hello, ", "Hello, you."), ("one", "onetwo")):
            with client.stream(PATH, PAYLOAD) as events:
                assert events.text == ""
                assert next(events).text == first == events.text
                events.close()
                assert events.text == first
            with client.stream(PATH, PAYLOAD) as events:
                seen = "".join(event.text for event in events)
                assert seen == events.text == whole == events.collect().text


def test_an_interruption_of_a_protocol_nobody_knows_has_its_partial_text(reading):
    with FakeServer(Answer(headers={"content-type": "text/event-stream"}, body='data: one\n\ndata: {"a')) as server:
        with pytest.raises(StreamInterrupted) as broken:
            reading(server.url)
    assert broken.value.partial == "one"


@pytest.mark.parametrize("cut", ["data:", "event: message_start\ndata: "])
def test_a_stream_that_is_cut_behind_its_first_data_is_tried_again(reading, cut):
    with FakeServer(Answer(headers={"content-type": "text/event-stream"}, body=cut), WHOLE) as server:
        texts, stream = reading(server.url, policy=Policy(tries=2, base=0.001))
    assert "".join(texts) == "Hello, you."
    assert len(stream.attempts) == 2


def test_an_answer_is_whole_where_only_what_follows_its_finish_reason_is_cut(reading):
    body = f'data: {CHOICE}\n\ndata: {{"cho'
    with FakeServer(Answer(headers={"content-type": "text/event-stream"}, body=body)) as server:
        texts, _ = reading(server.url)
    assert texts == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_stream_of_the_parent_says_so_in_a_child_of_fork():
    with FakeServer(WHOLE.replace(drip=(60, 0.5))) as server:
        with Client(server.url).stream(PATH, PAYLOAD) as events:
            next(events)
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    list(events)
                    said = "nothing"
                except BaseException as error:
                    said = f"{type(error).__name__}: {error}"
                os.write(writer, said.encode())
                os._exit(0)
            os.waitpid(child, 0)
            said = os.read(reader, 1000).decode()
            assert said.startswith("Closed: this stream was opened before a fork"), said
            assert "".join(event.text for event in events) == "you."
