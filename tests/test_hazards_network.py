"""Servers that close, reset, cut short, drip, never answer, or never stop answering: every call ends, and ends well."""

from __future__ import annotations

import asyncio
import json
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer

run = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))["run"]

LONG = Answer(json={"text": "long enough to be cut in the middle " * 40})
GOOD = Answer(json={"n": 1})


class Caller:
    """`call`, and `acall` in a loop that lives as long as the test: both keep connections between calls."""

    def __init__(self, mode: str) -> None:
        self._runner = asyncio.Runner() if mode == "acall" else None

    def __call__(self, url: str, payload: object = None, **options: Any) -> Any:
        if self._runner is None:
            return steadycall.call(url, payload, **options)
        return self._runner.run(steadycall.acall(url, payload, **options))

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=["call", "acall"])
def call(request: pytest.FixtureRequest) -> Any:
    caller = Caller(request.param)
    yield caller
    caller.close()


def failure_of(call: Callable[..., Any], url: str, **options: Any) -> Any:
    with pytest.raises(steadycall.CallError) as caught:
        call(url, {}, sleep=lambda _: None, **options)
    return caught.value


# Idle connections


def test_a_server_that_closes_after_each_answer_costs_no_attempt(call: Caller) -> None:
    # Fails without the replay of a request that a reused connection surely did not deliver: the close is on its way
    # while the next request is, 20 times.
    ends: list[steadycall.CallRecord] = []
    with FakeServer(Answer(json=1, close_idle=0)) as server:
        for _ in range(20):
            assert call(server.url, {}, tries=1, on_end=ends.append) == 1
        assert len(server.requests) == 20
    assert [len(end.attempts) for end in ends] == [1] * 20
    assert all(end.attempts[0].replays <= 1 for end in ends)
    assert all(end.requests == 1 + end.attempts[0].replays for end in ends)


@pytest.mark.slow
def test_a_connection_closed_while_nobody_called_is_not_used_again(call: Caller) -> None:
    # Fails without the runtime's turns before a request that follows idleness: then the first call after it meets
    # a closed connection, every time.
    ends: list[steadycall.CallRecord] = []
    with FakeServer(Answer(json=1, close_idle=0.05)) as server:
        for _ in range(20):
            assert call(server.url, {}, tries=1, on_end=ends.append) == 1
            server.wait_for(lambda s: s.connections_open == 0)
        assert len(server.requests) == server.connections == 20
    assert [end.requests for end in ends] == [1] * 20


# Broken answers


@pytest.mark.parametrize("where", ["before", "headers", "body"])
def test_a_reset_is_survived_by_a_retry_on_a_fresh_connection(call: Caller, where: str) -> None:
    with FakeServer(LONG.replace(reset=where), GOOD) as server:
        assert call(server.url, {}, sleep=lambda _: None) == {"n": 1}
        assert server.connections == len(server.requests) == 2


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("before", steadycall.ReadError),
        ("headers", steadycall.ReadError),
        ("body", steadycall.ResponseError),
    ],
)
def test_resets_without_end_are_told_as_what_they_are(call: Caller, where: str, error: type[Exception]) -> None:
    with FakeServer(LONG.replace(reset=where)) as server:
        raised = failure_of(call, server.url, tries=3)
        assert type(raised) is error
        assert raised.sent == "maybe"
        assert len(raised.attempts) == len(server.requests)


@pytest.mark.parametrize("chunked", [False, True], ids=["content-length", "chunked"])
def test_a_body_cut_short_is_no_answer_and_is_asked_for_again(call: Caller, chunked: bool) -> None:
    # Fails if what arrived were taken for the answer: 14 bytes of it are whole JSON.
    cut = Answer(body=b'{"text": "hi"}, and more', truncate=14, chunked=chunked)
    with FakeServer(cut, GOOD) as server:
        assert call(server.url, {}, sleep=lambda _: None) == {"n": 1}
    with FakeServer(cut) as server:
        assert type(failure_of(call, server.url, tries=2)) is steadycall.ResponseError
        assert len(server.requests) == 2


# Slow answers


def test_a_drip_past_the_attempt_timeout_ends_at_the_attempt_timeout(call: Caller) -> None:
    # Fails if only the silence between two bytes were measured: it never reaches `timeout` here.
    with FakeServer(LONG.replace(drip=(1, 0.02))) as server:
        began = time.monotonic()
        raised = failure_of(call, server.url, tries=1, attempt_timeout=0.3, timeout=5)
        took = time.monotonic() - began
        server.wait_for(lambda s: s.aborted == 1)
    assert isinstance(raised, steadycall.AttemptTimeout)
    assert raised.phase == "attempt"
    assert 0.29 < took < 1.5


def test_a_drip_past_the_deadline_ends_at_the_deadline(call: Caller) -> None:
    with FakeServer(LONG.replace(drip=(1, 0.02))) as server:
        began = time.monotonic()
        raised = failure_of(call, server.url, deadline=0.3, timeout=5)
        took = time.monotonic() - began
        server.wait_for(lambda s: s.aborted == 1)
    assert isinstance(raised, steadycall.DeadlineExceeded)
    assert 0.29 < took < 1.5


def test_a_server_that_never_answers_is_left_after_the_timeout(call: Caller) -> None:
    with FakeServer(Answer(never=True)) as server:
        began = time.monotonic()
        raised = failure_of(call, server.url, tries=1, timeout=0.2)
        took = time.monotonic() - began
        # Fails without `Blocking::end` after a failed attempt: the request would stay in flight.
        server.wait_for(lambda s: s.aborted == 1 and s.connections_open == 0)
    assert isinstance(raised, steadycall.AttemptTimeout)
    assert raised.phase == "read"
    assert 0.19 < took < 1.5


# Answers without end


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [Answer(big=2**31), Answer(big=2**31, chunked=True), Answer(big=2**31, content_encoding="gzip")],
    ids=["2 GB announced", "2 GB unannounced", "gzip bomb"],
)
@pytest.mark.parametrize("limit", [{}, {"max_response_bytes": 1000000}], ids=["64 MiB", "1 MB"])
def test_two_gigabytes_are_refused_soon_and_without_memory_for_them(answer: Answer, limit: dict[str, int]) -> None:
    # Fails if the size were looked at after reading, or before decompressing.
    pytest.importorskip("resource")
    with FakeServer(answer) as server:
        server.answer("/small", Answer(json=1))
        outcome = run("limits", server.url, json.dumps(limit))
        server.wait_for(lambda s: s.aborted == 1)
    assert "larger than max_response_bytes" in outcome["why"]
    assert outcome["tries"] == 1
    assert outcome["took"] < 5
    assert outcome["grew"] < (20 if limit else 80)
