"""A client under fork, Ctrl-C, cancel, exit and many loops: each in a process of its own, against real servers."""

from __future__ import annotations

import json
import os
import runpy
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steadycall.testing import Answer, FakeServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no fork, and cannot send SIGINT to one process"),
]

hazards = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))


@pytest.fixture
def urls() -> Iterator[tuple[str, str]]:
    with FakeServer(Answer(never=True)) as silent, FakeServer(lambda asked: Answer(json=asked.json())) as echo:
        yield silent.url, echo.url


def test_children_of_fork_find_the_gates_open_and_leave_the_parents_alone(urls: tuple[str, str]) -> None:
    told = hazards["run"]("clients", "forked", *urls)
    assert told["right"] == 20
    assert told["parent"] == [1, 1]


@pytest.mark.parametrize("scenario", ["interrupted_in_line", "interrupted_before_the_rate"])
def test_ctrl_c_ends_a_call_that_waits_at_the_gates(urls: tuple[str, str], scenario: str) -> None:
    def delay() -> float:
        process = hazards["start"]("clients", scenario, *urls)
        heard(process)
        time.sleep(0.1)  # it says that it is ready before it waits
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        told = heard(process)
        hazards["end"](process)
        assert told["felt"] == "KeyboardInterrupt"
        assert told["waiting"] == (1 if scenario == "interrupted_in_line" else 0)
        return float(told["at"]) - sent

    assert min(delay() for _ in range(2)) < 0.1


def test_one_client_serves_loop_after_loop_and_many_at_once(urls: tuple[str, str]) -> None:
    told = hazards["run"]("clients", "many_loops", *urls)
    assert told["right"] == 300
    assert told["most"] <= 3
    assert told["left"] == [0, 0]


def test_an_exit_with_calls_in_line_neither_hangs_nor_crashes(urls: tuple[str, str]) -> None:
    process = hazards["start"]("clients", "exits_with_waiters", *urls)
    said = hazards["end"](process, 20)
    assert json.loads(said.splitlines()[-1])["felt"] == "KeyboardInterrupt"


def test_ten_thousand_cancelled_waiters_leave_nothing_behind(urls: tuple[str, str]) -> None:
    assert hazards["run"]("clients", "cancelled", *urls)["left"] == [0, 0]


def heard(process: Any) -> dict[str, Any]:
    line = process.stdout.readline()
    return dict(json.loads(line)) if line else {"nothing, it ended": hazards["end"](process)}
