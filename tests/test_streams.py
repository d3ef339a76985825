"""Streams over a real server: what is shown, what is tried again unseen, what interrupts; sync and async alike."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall import Policy, StreamInterrupted, StreamTimeout, Timeout
from steadycall._native import Events, Exchange, StreamEvent
from steadycall._stream import AsyncStream, Collected, Stream
from steadycall.testing import Answer, FakeServer, answers

CASES = Path(os.environ.get("STEADYCALL_STREAM_CASES") or Path(__file__).parent / "cases" / "streams.jsonl")
SSE = {"content-type": "text/event-stream", "x-request-id": "req_1"}


def sse(*events: Any, name: str = "") -> str:
    """Events as they go over the wire: a text is written as it is, anything else as JSON."""
    head = f"event: {name}\n" if name else ""
    return "".join(
        f"{head}data: {event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    )


def chat(text: str | None = None, end: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": end}], **more}


ROLE = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
USAGE = {
    "id": "c",
    "choices": [],
    "usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12},
}
COUNTS = {"input_tokens": 8, "output_tokens": 4, "total_tokens": 12}
GOOD = sse(ROLE, chat("Grüße, "), chat("Welt 😀"), chat(end="stop"), USAGE, "[DONE]")
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def streamed(body: str | bytes, **more: Any) -> Answer:
    return Answer(headers=SSE, body=body, chunked=True, **more)


class Front:
    """One of the two fronts; a behaviour test runs in both."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make(self, server: FakeServer, timeout: StreamTimeout = StreamTimeout(), **options: Any) -> Any:  # noqa: B008 - frozen
        url = server.url_for("/v1/stream")
        hooks = {name: options.pop(name) for name in ("on_end", "on_retry", "sleep", "clock") if name in options}
        given = {
            name: options.pop(name)
            for name in ("choices", "most_bytes", "tell", "is_secret", "admission", "admit")
            if name in options
        }
        bound = Policy(**{"base": 0.001, **options}).bind(rng=7, **hooks)

        def exchange() -> Exchange:
            return Exchange("POST", url, [], b"{}", Timeout(5.0), None, None)

        cls = Stream if self.name == "sync" else AsyncStream
        return cls(exchange, bound, url=url, host="llm.example", timeout=timeout, **given)

    def read(
        self, server: FakeServer, seen: list[StreamEvent] | None = None, **options: Any
    ) -> tuple[list[StreamEvent], Any]:
        """Every event, and the stream; what came before an error is in ``seen``."""
        seen = [] if seen is None else seen
        stream = self.make(server, **options)
        if self.name == "sync":
            with stream:
                for event in stream:
                    seen.append(event)
            return seen, stream

        async def run() -> None:
            async with stream:
                async for event in stream:
                    seen.append(event)

        asyncio.run(run())
        return seen, stream

    def fails(self, server: FakeServer, **options: Any) -> tuple[Any, list[StreamEvent]]:
        """The error, and the events before it."""
        seen: list[StreamEvent] = []
        with pytest.raises(steadycall.CallError) as found:
            self.read(server, seen, **options)
        return found.value, seen

    def collect(self, server: FakeServer, **options: Any) -> Collected:
        stream = self.make(server, **options)
        if self.name == "sync":
            return stream.collect()  # type: ignore[no-any-return]

        async def run() -> Any:
            return await stream.collect()

        return asyncio.run(run())  # type: ignore[no-any-return]


@pytest.fixture(params=["sync", "async"])
def front(request: pytest.FixtureRequest) -> Front:
    return Front(request.param)


def texts(events: list[StreamEvent]) -> list[str]:
    return [event.text for event in events]


# What is shown


def test_events_come_with_their_text_and_the_mark_of_the_end_is_none_of_them(front: Front) -> None:
    with FakeServer(streamed(GOOD)) as server:
        events, stream = front.read(server)
    assert texts(events) == ["", "Grüße, ", "Welt 😀", "", ""]
    assert [event.json() for event in events] == [ROLE, chat("Grüße, "), chat("Welt 😀"), chat(end="stop"), USAGE]
    assert (stream.text, stream.usage, stream.status) == ("Grüße, Welt 😀", COUNTS, 200)
    assert (stream.request_id, stream.run_id) == ("req_1", "chatcmpl-1")
    assert [(record.status, record.delivered) for record in stream.attempts] == [(200, True)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_bytes_may_be_split_anywhere(front: Front, size: int) -> None:
    with FakeServer(streamed("\ufeff" + GOOD.replace("\n", "\r\n"), drip=(size, 0.0))) as server:
        events, _ = front.read(server)
    assert "".join(texts(events)) == "Grüße, Welt 😀"


def test_names_and_ids_are_those_an_event_was_sent_with(front: Front) -> None:
    body = "event: delta\nid: 7\ndata: one\ndata: two\n\n: a comment\n\nretry: 5\ndata: three\n\n"
    with FakeServer(streamed(body)) as server:
        events, _ = front.read(server)
    assert [(event.event, event.id, event.data) for event in events] == [
        ("delta", "7", "one\ntwo"),
        (None, None, "three"),
    ]
    assert texts(events) == ["one\ntwo", "three"]  # nobody here knows the protocol
    with pytest.raises(ValueError, match="Expecting value"):
        events[0].json()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", '[{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}\n,\r\n'
         '{"candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}]}\n]'),
        ("application/x-ndjson", '{"message": {"content": "Hi"}, "done": false}\n'
         '{"message": {"content": "!"}, "done": true, "prompt_eval_count": 8, "eval_count": 4}\n'),
        ("text/plain", sse(chat("Hi"), chat("!", "stop"))),
    ],
)  # fmt: skip
def test_arrays_lines_and_untold_types_are_streams_too(front: Front, content_type: str, body: str) -> None:
    with FakeServer(Answer(headers={"content-type": content_type}, body=body, drip=(5, 0.0))) as server:
        assert front.collect(server).text == "Hi!"


def test_the_first_item_of_an_array_is_given_out_before_the_second_comes(front: Front) -> None:
    first = '[{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}'
    answer = Answer(headers={"content-type": "application/json"}, body=first + " " * 60, drip=(len(first), 3.0))
    with FakeServer(answer) as server:
        began = time.monotonic()
        if front.name == "sync":
            with front.make(server) as stream:
                assert next(stream).text == "Hi"
        else:

            async def run() -> None:
                async with front.make(server) as stream:
                    assert (await anext(stream)).text == "Hi"

            asyncio.run(run())
        assert time.monotonic() - began < 2


def test_collect_gives_the_whole_answer(front: Front) -> None:
    with FakeServer(503, streamed(GOOD)) as server:
        found = front.collect(server)
    assert (found.text, found.usage, found.total_usage) == ("Grüße, Welt 😀", COUNTS, COUNTS)
    assert (found.event_count, found.status, found.request_id, found.run_id) == (5, 200, "req_1", "chatcmpl-1")
    assert [record.status for record in found.attempts] == [503, 200]
    with FakeServer(streamed("data: one\n\ndata: two\n\n")) as server:
        assert front.collect(server).text == "onetwo"


def test_collect_after_some_events_were_taken_gives_all_of_it() -> None:
    with FakeServer(streamed(GOOD)) as server, Front("sync").make(server) as stream:
        assert [next(stream).text for _ in range(2)] == ["", "Grüße, "]
        assert stream.collect().text == "Grüße, Welt 😀"


def test_a_stream_that_was_read_to_its_end_leaves_its_connection_for_the_next(front: Front) -> None:
    with FakeServer(streamed(GOOD)) as server:
        for _ in range(5):
            front.read(server)
        assert server.connections <= 2


def test_a_server_that_goes_on_after_the_end_holds_up_nobody(front: Front) -> None:
    with FakeServer(streamed(GOOD + ": ping\n\n" * 20_000, drip=(400, 0.01))) as server:
        began = time.monotonic()
        assert len(front.read(server)[0]) == 5
        assert time.monotonic() - began < 2
        server.wait_for(lambda s: s.connections_open == 0)


def test_an_error_event_leaves_its_connection_to_the_next_attempt(front: Front) -> None:
    bad = streamed(sse({"error": {"code": 502, "message": "x"}}, "[DONE]"))
    with FakeServer(bad, bad, bad, streamed(GOOD)) as server:
        front.read(server)
        assert len(server.requests) == 4
        assert server.connections <= 2


def test_an_answer_that_is_longer_than_allowed_is_cut(front: Front) -> None:
    with FakeServer(streamed(sse(chat("Hi")) * 5000)) as server:
        error, _ = front.fails(server, most_bytes=200_000)
        assert error.partial.startswith("HiHi")
        assert "larger than" in str(error)
        with pytest.raises(steadycall.CallError):
            front.collect(server, most_bytes=200_000)
        assert len(server.requests) == 2


def test_a_server_that_holds_the_connection_after_the_end_holds_up_nobody(front: Front) -> None:
    with FakeServer(streamed(GOOD + ": " + "x" * 1000, drip=(len(GOOD.encode()), 3.0))) as server:
        began = time.monotonic()
        events, _ = front.read(server)
        assert (len(events), time.monotonic() - began < 2) == (5, True)


# Before the first content


@pytest.mark.parametrize(
    "bad",
    [
        503,
        answers.openai.rate_limited(),
        Answer(reset="before"),
        streamed(""),
        streamed(": ping\n\n"),
        streamed("data: [DONE]\n\n"),
        streamed(sse(ROLE)),
        streamed(sse(ROLE) + 'data: {"choices": [{"delta": {"con'),
        streamed(sse(ROLE), reset="body"),
        streamed(sse(ROLE, {"error": {"code": 502, "message": "no worker"}})),
        streamed(sse({"type": "message_start", "message": {}}) + sse(OVERLOADED, name="error")),
        streamed(sse(ROLE) + sse("boom", name="error")),
        Answer(headers={"content-type": "application/json"}, body='[{"error": {"code": 503, "message": "x"}}]'),
    ],
    ids=lambda bad: repr(bad)[:40],
)
def test_whatever_goes_wrong_before_the_first_content_is_tried_again_unseen(front: Front, bad: Any) -> None:
    with FakeServer(bad, streamed(GOOD)) as server:
        events, stream = front.read(server)
        assert len(server.requests) == 2
    assert "".join(texts(events)) == "Grüße, Welt 😀"
    assert len(events) == 5, "the opening of the first attempt was shown"
    assert [record.delivered for record in stream.attempts] == [False, True]


def test_a_stall_before_the_first_content_is_tried_again_once(front: Front) -> None:
    stalls = streamed(sse(ROLE) * 2, drip=(len(sse(ROLE)), 3.0))
    with FakeServer(stalls, streamed(GOOD)) as server:
        events, _ = front.read(server, timeout=StreamTimeout(idle=0.15))
    assert len(events) == 5
    with FakeServer(stalls) as server:
        error, _ = front.fails(server, timeout=StreamTimeout(idle=0.15))
        assert len(server.requests) == 2
    assert isinstance(error, steadycall.AttemptTimeout)
    assert "No byte came for 0.15 s (StreamTimeout.idle)" in str(error)
    assert error.sent == "maybe"


def test_comments_and_pings_keep_a_stream_alive_and_are_no_content(front: Front) -> None:
    pings = ": ping\n\n" + 'data: {"type": "ping"}\n\n'
    slow = streamed(pings * 12 + GOOD, drip=(len(pings), 0.05))
    with FakeServer(slow) as server:
        assert len(front.read(server, timeout=StreamTimeout(idle=0.5))[0]) == 12 + 5
        error, seen = front.fails(server, timeout=StreamTimeout(idle=0.5, first_event=0.2), tries=1)
    assert "No content came within 0.2 s (StreamTimeout.first_event)" in str(error)
    assert seen == []


def test_the_wait_for_the_first_content_begins_with_the_request(front: Front) -> None:
    with FakeServer(streamed(GOOD, delay=3.0)) as server:
        began = time.monotonic()
        error, _ = front.fails(server, timeout=StreamTimeout(first_event=0.2), tries=1)
        assert time.monotonic() - began < 2
    assert "StreamTimeout.first_event" in str(error)


def test_a_failure_that_no_retry_can_fix_is_raised_as_call_raises_it(front: Front) -> None:
    with FakeServer(answers.openai.insufficient_quota()) as server:
        error, _ = front.fails(server)
        assert len(server.requests) == 1
    assert isinstance(error, steadycall.HTTPStatusError)
    assert (error.code, error.provider_code, error.reason) == (429, "insufficient_quota", "Too Many Requests")
    assert error.request_id == "req_test"
    assert json.loads(error.body)["error"]["code"] == "insufficient_quota"
    quota = {"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
    with FakeServer(streamed(sse(quota))) as server:
        error, _ = front.fails(server)
    assert isinstance(error, steadycall.ResponseError)
    assert (error.status, error.provider_code, error.stop_reason) == (200, "insufficient_quota", "not_retryable")
    assert b"insufficient_quota" in error.body


def test_a_prompt_that_was_blocked_is_a_failure_and_an_html_page_too(front: Front) -> None:
    with FakeServer(streamed(sse({"promptFeedback": {"blockReason": "SAFETY"}}))) as server:
        assert front.fails(server)[0].kind == "permanent"
    with FakeServer(Answer(headers={"content-type": "text/html"}, body="<!DOCTYPE html><html></html>")) as server:
        error, _ = front.fails(server, tries=1)
    assert isinstance(error, steadycall.ResponseError)


def test_the_deadline_bounds_the_whole_of_it(front: Front) -> None:
    with FakeServer(503) as server:
        error, _ = front.fails(server, deadline=0.3, base=1000.0, cap=1000.0)
    assert isinstance(error, steadycall.DeadlineExceeded)
    assert (error.stage, type(error.__cause__)) == ("retry_delay", steadycall.HTTPStatusError)
    with FakeServer(Answer(never=True)) as server:
        error, _ = front.fails(server, deadline=0.2)
    assert isinstance(error, steadycall.DeadlineExceeded)
    assert error.stage == "attempt"


# After it


@pytest.mark.parametrize(
    ("rest", "cause"),
    [
        ("", steadycall.ResponseError),
        (sse({"error": {"code": 502, "message": "x"}}), steadycall.ResponseError),
        (sse(OVERLOADED, name="error"), steadycall.ResponseError),
        ('data: {"choices": [{"del', steadycall.ResponseError),
    ],
)
def test_what_breaks_after_the_first_content_is_never_replayed(front: Front, rest: str, cause: type) -> None:
    begun = sse(ROLE, chat("Grü"), chat("ße"))
    with FakeServer(streamed(begun + rest), streamed(GOOD)) as server:
        error, seen = front.fails(server)
        assert len(server.requests) == 1
    assert type(error) is StreamInterrupted
    assert texts(seen) == ["", "Grü", "ße"]
    assert (error.partial, error.events, error.run_id, error.sent) == ("Grüße", tuple(seen), "chatcmpl-1", "maybe")
    assert (error.stop_reason, type(error.__cause__), error.usage) == ("stream_started", cause, None)
    assert [record.delivered for record in error.attempts] == [False]


def test_a_connection_that_breaks_after_content_interrupts_and_one_after_the_end_does_not(front: Front) -> None:
    with FakeServer(streamed(sse(chat("Hi")) * 40, reset="body")) as server:
        error, _ = front.fails(server)
    assert isinstance(error.__cause__, steadycall.TransportError)
    assert error.partial.startswith("Hi")
    body = sse(chat("Hi"), chat(end="stop"))
    with FakeServer(Answer(headers=SSE, body=body + sse(chat("x")), truncate=len(body))) as server:
        assert "".join(texts(front.read(server)[0])) == "Hi"


def test_a_stall_after_content_interrupts(front: Front) -> None:
    with FakeServer(streamed(sse(chat("Hi")) * 2, drip=(len(sse(chat("Hi"))), 3.0))) as server:
        error, seen = front.fails(server, timeout=StreamTimeout(idle=0.15))
        server.wait_for(lambda s: s.connections_open == 0)
    assert (error.partial, texts(seen)) == ("Hi", ["Hi"])
    assert "StreamTimeout.idle" in str(error)
    assert isinstance(error.__cause__, TimeoutError)


def test_the_total_time_and_the_deadline_cut_a_stream_that_goes_on(front: Front) -> None:
    endless = streamed(sse(chat("Hi")) * 100, drip=(len(sse(chat("Hi"))), 0.02))
    with FakeServer(endless) as server:
        error, _ = front.fails(server, timeout=StreamTimeout(total=0.2))
        assert "StreamTimeout.total" in str(error)
        assert error.stop_reason == "stream_started"
        error, _ = front.fails(server, deadline=0.2)
        assert (error.stop_reason, error.__cause__.stage) == ("deadline", "attempt")
        assert error.partial.startswith("HiHi")
        # Nothing was shown of what is collected: the deadline is why it ended.
        with pytest.raises(steadycall.DeadlineExceeded) as found:
            front.collect(server, deadline=0.2)
        assert isinstance(found.value.__cause__, StreamInterrupted)


def test_an_interruption_tells_the_usage_so_far(front: Front) -> None:
    start = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 8, "output_tokens": 1}}}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}
    with FakeServer(streamed(sse(start, delta) + sse(OVERLOADED, name="error"))) as server:
        error, _ = front.fails(server)
    assert error.usage == {"input_tokens": 8, "output_tokens": 1, "total_tokens": 9}
    assert (error.run_id, error.partial, error.kind) == ("msg_1", "Hi", "call")


def test_what_is_collected_is_tried_again_after_content_too_and_counts_as_billed(front: Front) -> None:
    begun = sse(chat("wrong", usage=USAGE["usage"]))
    records: list[steadycall.CallRecord] = []
    with FakeServer(streamed(begun), streamed(GOOD)) as server:
        found = front.collect(server, on_end=records.append)
    assert (found.text, found.usage) == ("Grüße, Welt 😀", COUNTS)
    assert found.total_usage == {name: 2 * count for name, count in COUNTS.items()}
    assert records[0].usage == found.total_usage
    with FakeServer(streamed(begun)) as server:
        with pytest.raises(StreamInterrupted) as error:
            front.collect(server, tries=2)
        assert len(server.requests) == 2
    assert (error.value.partial, error.value.stop_reason) == ("wrong", "tries")
    with FakeServer(streamed("data: one\n\ndata: {"), streamed("data: two\n\n")) as server:
        assert front.collect(server).text == "two"


def test_choices_that_were_asked_for_are_waited_for(front: Front) -> None:
    with FakeServer(streamed(sse(chat("Hi"), chat(end="stop")))) as server:
        assert front.collect(server, choices=1).text == "Hi"
        with pytest.raises(StreamInterrupted):
            front.collect(server, choices=2, tries=1)


def test_of_many_events_an_error_keeps_the_last_64_kib(front: Front) -> None:
    with FakeServer(streamed(sse(*(chat(f"{number} ") for number in range(2000))))) as server:
        error, seen = front.fails(server)
    assert len(seen) == 2000
    assert error.events == tuple(seen[-len(error.events) :])
    assert 50_000 < sum(len(event.data) for event in error.events) <= 65_536
    assert error.partial.split() == [str(number) for number in range(2000)]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_interruption_can_be_copied_and_sent_elsewhere(copied: Any) -> None:
    with FakeServer(streamed(sse(chat("Hi")))) as server:
        error, _ = Front("sync").fails(server)
    other = copied(error)
    assert (other.partial, other.events, other.run_id, other.usage) == ("Hi", error.events, "chatcmpl-1", None)
    assert (str(other), other.attempts, repr(other.__cause__)) == (str(error), error.attempts, repr(error.__cause__))


def test_no_text_of_a_stream_is_printed_by_itself() -> None:
    with FakeServer(streamed(sse(chat("secret words")))) as server:
        error, seen = Front("sync").fails(server)
        told = [error, error.__cause__, *seen, Front("sync").make(server)]
    assert [item for item in told if "secret" in f"{item!s} {item!r}"] == []


# Who is told


def test_observers_are_told_of_streams_as_of_calls(front: Front) -> None:
    ends: list[steadycall.CallRecord] = []
    retries: list[steadycall.AttemptRecord] = []
    steps: list[tuple[str, Any]] = []
    options: dict[str, Any] = {
        "on_end": ends.append,
        "on_retry": retries.append,
        "tell": lambda name, number=None, **_: steps.append((name, number)),
    }
    with FakeServer(503, streamed(GOOD), streamed(sse(chat("Hi")))) as server:
        front.read(server, **options)
        front.fails(server, **options)
    assert [record.outcome for record in ends] == ["answered", "stream_started"]
    assert [record.usage for record in ends] == [COUNTS, None]
    assert [(record.status, record.number) for record in retries] == [(503, 1)]
    begun = [("attempt_started", 1), ("attempt_ended", 1), ("waiting", 2), ("attempt_started", 2), ("first_delta", 2)]
    broken = [("attempt_started", 1), ("first_delta", 1), ("attempt_ended", 1), ("gave_up", None)]
    assert steps == [*begun, ("attempt_ended", 2), *broken]


def test_a_scope_around_a_stream_bounds_it(front: Front) -> None:
    with FakeServer(503) as server:
        with steadycall.scope(requests=2):
            error, _ = front.fails(server)
        assert len(server.requests) == 2
    assert error.stop_reason == "request_budget"
    with FakeServer(streamed(GOOD)) as server, steadycall.scope(requests=1):
        front.read(server)
        error, _ = front.fails(server)
        assert type(error) is steadycall.RequestBudgetSpent


def test_retry_if_has_its_say_before_the_first_content(front: Front) -> None:
    with FakeServer(503, streamed(GOOD)) as server:
        error, _ = front.fails(server, retry_if=lambda failure, exc: exc.code != 503)
    assert (error.code, error.stop_reason) == (503, "not_retryable")


def test_what_a_server_says_of_our_secrets_is_not_told(front: Front) -> None:
    with FakeServer(streamed(sse(chat("Hi")))) as server:
        error, _ = front.fails(server, is_secret=lambda text: text in ("req_1", "chatcmpl-1"))
    assert (error.request_id, error.run_id) == (None, None)


# Sockets


def test_leaving_the_block_closes_the_socket(front: Front) -> None:
    ends: list[steadycall.CallRecord] = []
    with FakeServer(streamed(sse(chat("Hi")) * 1000, drip=(len(sse(chat("Hi"))), 0.02))) as server:
        if front.name == "sync":
            with front.make(server, on_end=ends.append) as stream:
                assert next(stream).text == "Hi"
            assert list(stream) == []
        else:

            async def run() -> None:
                async with front.make(server, on_end=ends.append) as stream:
                    assert (await anext(stream)).text == "Hi"
                assert [event async for event in stream] == []

            asyncio.run(run())
        server.wait_for(lambda s: s.connections_open == 0 and s.aborted == 1)
    assert [(record.outcome, len(record.attempts)) for record in ends] == [("answered", 1)]


def test_a_generator_that_is_closed_closes_the_socket() -> None:
    def words(server: FakeServer) -> Any:
        with Front("sync").make(server) as stream:
            for event in stream:
                yield event.text

    with FakeServer(streamed(sse(chat("Hi")) * 1000, drip=(len(sse(chat("Hi"))), 0.02))) as server:
        reading = words(server)
        assert next(reading) == "Hi"
        reading.close()
        server.wait_for(lambda s: s.connections_open == 0)


@pytest.mark.parametrize("pings", [": ping\n\n" * 1000, sse(chat("Hi")) * 1000])
def test_cancelling_who_reads_closes_the_socket(pings: str) -> None:
    async def run(server: FakeServer) -> None:
        async def read() -> None:
            async with Front("async").make(server) as stream:
                async for _ in stream:
                    pass

        task = asyncio.create_task(read())
        await server.await_for(lambda s: s.in_flight == 1)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.await_for(lambda s: s.connections_open == 0)

    with FakeServer(streamed(pings, drip=(64, 0.02))) as server:
        asyncio.run(run(server))


def test_closing_from_another_thread_ends_a_read() -> None:
    with FakeServer(streamed(sse(chat("Hi")) + ": ping\n\n" * 1000, drip=(len(sse(chat("Hi"))), 3.0))) as server:
        with Front("sync").make(server) as stream:
            next(stream)
            timer = threading.Timer(0.1, stream.close)
            timer.start()
            began = time.monotonic()
            with pytest.raises(steadycall.Closed):
                next(stream)
            assert time.monotonic() - began < 2
        server.wait_for(lambda s: s.connections_open == 0)


def resident() -> int:
    """Bytes of memory this process has."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_reader_that_stops_holds_the_server_back_and_memory_does_not_grow(front: Front) -> None:
    body = (sse(chat("x" * 1000)) * 40_000).encode()  # 44 MB

    def stands_still(server: FakeServer) -> None:
        before = resident()
        time.sleep(0.3)
        assert server.in_flight == 1, "the server could send all of it"
        assert resident() - before < 4 * 1024 * 1024

    with FakeServer(Answer(headers=SSE, body=body, drip=(65_536, 0.0))) as server:
        before = resident()
        if front.name == "sync":
            with front.make(server) as stream:
                for _ in range(10):
                    next(stream)
                stands_still(server)
        else:

            async def run() -> None:
                async with front.make(server) as stream:
                    for _ in range(10):
                        await anext(stream)
                    stands_still(server)

            asyncio.run(run())
        # The server's own copy of the head and body is one of it.
        assert resident() - before < len(body) + 16 * 1024 * 1024


def test_20_refused_streams_at_once_leave_their_connections_to_the_next(front: Front) -> None:
    refused = answers.openai.rate_limited(0.05)
    with FakeServer() as server:
        server.script("/v1/stream", [refused] * 20, then=streamed(GOOD))
        if front.name == "sync":
            with ThreadPoolExecutor(20) as pool:
                found = list(pool.map(lambda _: front.collect(server).text, range(20)))
        else:

            async def run() -> list[Any]:
                return list(await asyncio.gather(*(front.make(server).collect() for _ in range(20))))

            found = [collected.text for collected in asyncio.run(run())]
        assert found == ["Grüße, Welt 😀"] * 20
        assert len(server.requests) == 40
        assert server.connections <= 21, "an error's connection was not used again"


# Values


@pytest.mark.parametrize("field", ["first_event", "idle", "total"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", True])
def test_a_time_that_makes_no_sense_is_refused(field: str, value: Any) -> None:
    with pytest.raises(steadycall.ConfigError) as found:
        StreamTimeout(**{field: value})
    assert field in found.value.field


def test_stream_timeouts_are_values() -> None:
    assert StreamTimeout(idle=5) == StreamTimeout(idle=5) != StreamTimeout(idle=6)
    assert pickle.loads(pickle.dumps(StreamTimeout(total=None, idle=None))) == StreamTimeout(idle=None)
    assert repr(StreamTimeout(total=7)) == "StreamTimeout(first_event=120.0, idle=60.0, total=7)"


def test_events_are_values() -> None:
    event = StreamEvent("delta", "{}", "7", "Hi")
    assert pickle.loads(pickle.dumps(event)) == event
    assert event != StreamEvent("delta", "{}", "7", "Ho")
    assert StreamEvent(None, "{}").text == "{}"
    assert repr(event) == "<StreamEvent delta: 2 bytes>"


# Real failures


def rows() -> list[Any]:
    found = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in found if "stream" in row["input"]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_real_failures_of_streams_are_judged_right(row: Any) -> None:
    given, expected = row["input"], row["expect"]
    headers = [(name.encode(), value.encode()) for name, value in given["headers"].items()]
    reader = Events(given["status"], headers, "https://llm.example/v1", 1.79e9)
    for piece in given["stream"]:
        if not reader.is_over:
            reader.feed(piece.encode())
    if not reader.is_over:
        reader.end()
    failure = reader.failure
    assert failure is not None
    assert reader.has_started == given["content_delivered"]
    assert (failure.retryable and not reader.has_started) == expected["retry"]
    if expected["wait_s"] == "backoff":
        assert failure.hint is None


def test_real_failures_are_there() -> None:
    assert len(rows()) >= 9
