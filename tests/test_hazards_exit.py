"""The interpreter ends with calls in flight: at once, with code 0, and without a word."""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import pytest

from steadycall.testing import Answer, FakeServer

pytestmark = pytest.mark.slow

hazards = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))

START_UP = 1.5  # of a Python on a busy machine, and what the scenario itself waits
TO_END = 2.0


@pytest.mark.parametrize("bridge", ["own bridge", "fallback"])
@pytest.mark.parametrize(
    "scenario",
    [
        "daemon_threads",
        "observers_at_work",
        "loops_in_daemon_threads",
        "tasks",
        "a_loop_left_open",
        "sys_exit_in_a_task",
        "both",
        "slowly",
    ],
)
def test_an_exit_with_calls_in_flight_is_clean(scenario: str, bridge: str) -> None:
    # Fails if a background thread took the GIL of an interpreter that ends (a panic, or a hang), and if dropping a
    # runtime waited for its threads.
    environment = {"STEADYCALL_NO_ADD_READER": "1"} if bridge == "fallback" else {}
    with FakeServer(Answer(never=True)) as silent, FakeServer(Answer(json=1)) as echo:
        echo.answer("/busy", 503)
        for _ in range(3):  # the moment of the exit is a matter of luck
            process = hazards["start"]("exits", scenario, silent.url, echo.url, **environment)
            began = time.monotonic()
            hazards["end"](process, 20)
            assert time.monotonic() - began < START_UP + TO_END
        assert len(echo.requests) + len(silent.requests) > 0
