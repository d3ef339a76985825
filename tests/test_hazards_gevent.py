"""Under gevent's monkey-patching a call blocks its greenlet only: the attempt runs in the hub's thread pool.

Each of these fails without `_gevent.cooperative`, which every attempt goes through once `socket` is patched.
"""

from __future__ import annotations

import json
import runpy
import time
from pathlib import Path

import pytest

from steadycall.testing import Answer, FakeServer, answers

pytest.importorskip("gevent")

pytestmark = pytest.mark.slow

hazards = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))
run = hazards["run"]


def test_20_greenlets_wait_for_20_answers_at_the_same_time() -> None:
    with FakeServer(lambda request: Answer(json=request.json(), delay=0.2)) as server:
        server.answer("/at-once", Answer(json=1))
        outcome = run("greenlets", "twenty_at_once", server.url)
    assert outcome["answers"] == list(range(20))
    assert outcome["took"] < 20 * 0.2 / 2  # the pool has ten threads, so two rounds are due: 0.4 s


def test_another_greenlet_runs_during_io() -> None:
    with FakeServer(Answer(json=1, delay=0.5)) as server:
        outcome = run("greenlets", "counting_during_io", server.url)
    assert outcome["answer"] == 1
    assert outcome["turns"] >= 10  # of 50 in half a second


def test_another_greenlet_runs_during_the_back_off_wait() -> None:
    with FakeServer(answers.openai.rate_limited(retry_after=0.5), Answer(json=1)) as server:
        outcome = run("greenlets", "counting_during_the_wait", server.url)
    assert outcome["waits"] == [0.5]
    assert outcome["answer"] == 1
    assert outcome["turns"] >= 10


def test_killing_a_greenlet_in_a_call_ends_it_at_once_and_closes_its_socket() -> None:
    # Fails without the abort in `_gevent.cooperative`: the pool's thread would go on until the timeout.
    with FakeServer(Answer(never=True)) as server:
        server.answer("/after", Answer(json=2))
        process = hazards["start"]("greenlets", "killed", server.url)
        server.wait_for(lambda s: s.in_flight == 1, 20)
        process.stdin.write("kill it\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["took"] < 1
        server.wait_for(lambda s: s.aborted == 1 and s.connections_open == 0)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert json.loads(hazards["end"](process)) == {"answer": 2}


def test_gevent_timeout_ends_a_call_quietly_and_the_next_one_works() -> None:
    # Quietly, as `run` demands: what a task in gevent's pool raises after its greenlet went is printed.
    with FakeServer(Answer(never=True)) as server:
        server.answer("/after", Answer(json=2))
        outcome = run("greenlets", "out_of_time", server.url)
    assert outcome["answer"] == 2
    assert 0.15 < outcome["took"] < 1


def test_failures_are_told_to_the_greenlet_that_called() -> None:
    with FakeServer(503) as server:
        began = time.monotonic()
        outcome = run("greenlets", "failing", server.url)
        assert time.monotonic() - began < 20
        assert len(server.requests) == 100
    assert outcome["ends"] == [["HTTPStatusError", 5]] * 20
