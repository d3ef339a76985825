"""10,000 calls leave nothing behind: no socket, no thread, no task, no Python object, no memory."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steadycall.testing import Answer, FakeServer, Request

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in /proc"),
]

run = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))["run"]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(Answer(json={"ok": True})) as server:
        server.answer("/busy-first", at_first(Answer(503)))
        server.answer("/reset-first", at_first(Answer(reset="before")))
        server.answer("/refused", Answer(400, json={"error": {"message": "no"}}))
        server.answer("/cut", Answer(json={"text": "cut " * 100}, truncate=10))
        server.answer("/never", Answer(never=True))
        yield server


def at_first(fault: Answer) -> Callable[[Request], Answer]:
    """The fault for a call's first attempt, an answer for its second."""
    failed: set[int] = set()

    def step(request: Request) -> Answer:
        number = request.json()["n"]
        if number in failed:
            failed.remove(number)
            return Answer(json={"ok": True})
        failed.add(number)
        return fault

    return step


@pytest.mark.parametrize("bridge", ["own bridge", "fallback"])
@pytest.mark.parametrize("mode", ["call", "acall", "loops"])
def test_10000_calls_leave_nothing_behind(server: FakeServer, mode: str, bridge: str) -> None:
    # "loops" fails if the bridges of closed loops were kept, with their pipes; "acall" if a call that was cancelled
    # stayed in its bridge's table.
    if mode == "call" and bridge == "fallback":
        pytest.skip("a blocking call has no bridge")
    environment = {"STEADYCALL_NO_ADD_READER": "1"} if bridge == "fallback" else {}
    more = run("many", mode, server.url, seconds=120, **environment)
    # A connection is kept for each of the calls that overlapped: one, or 50 at most; a loop has a pair of its own.
    assert more["sockets"] <= (1 if mode == "call" else 50) + 4, more
    assert more["other_descriptors"] <= 3, more
    # The fallback's own pool keeps threads for ten seconds: as many as calls ended at once, of 50.
    assert more["threads"] <= (2 if bridge == "own bridge" else 50), more
    assert more["python_threads"] == 0, more
    assert more["objects"] <= 100, more
    # Free lists and tables make it some hundred more or less, however many calls there are; a leak is one a call.
    assert more["blocks"] <= 3000, more
    assert more["mib"] <= 8, more
