"""A bulk run is killed, and the next one goes on: every row ends in exactly one record, and none that had one is sent."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steadycall.testing import Answer, FakeServer, answers
from steadycall.testing.message import Request

pytestmark = pytest.mark.slow

ROWS = 2_000
MOMENTS = 50
SCRIPT = Path(__file__).parent / "hazards" / "bulk.py"
OK = answers.openai.ok("Hi.")
BUSY = answers.openai.overloaded()
BAD = answers.openai.bad_request()
RESET = Answer(reset="before")
CUT = OK.replace(truncate=40)


class Provider:
    """Answers most rows, fails one in ten at first and one in fifty always; kills a process at its nth request."""

    def __init__(self, server: FakeServer) -> None:
        self.asked: Counter[int] = Counter()
        self.kill_at: tuple[int, float] | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        server.script("/v1/chat/completions", [self.answer])

    def answer(self, request: Request) -> Answer:
        found = re.search(rb"Say (\d+)\.", request.body)
        assert found is not None
        number = int(found[1])
        with self._lock:
            self.asked[number] += 1
            first, total = self.asked[number] == 1, self.asked.total()
        if self.process is not None and self.kill_at is not None and total >= self.kill_at[0]:
            process, self.process = self.process, None
            time.sleep(self.kill_at[1])
            process.send_signal(signal.SIGKILL)
        if number % 50 == 7:
            return BAD
        if first and number % 10 == 3:
            return (BUSY, RESET, CUT)[number // 10 % 3]
        return OK


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with path.open("w") as file:
        for number in range(ROWS):
            body = {"model": "m", "messages": [{"role": "user", "content": f"Say {number}."}]}
            row = {"custom_id": f"row {number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(row) + "\n")
    return path


def start(rows: Path, output: Path, server: FakeServer) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), str(rows), str(output), f"{server.url}/v1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def finish(process: subprocess.Popen[bytes]) -> dict[str, int]:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    summary: dict[str, int] = json.loads(out)
    return summary


def records(output: Path) -> Iterator[dict[str, Any]]:
    """Every whole record of both files."""
    for path in (output, output.with_suffix(".failures.jsonl")):
        if path.exists():
            yield from (json.loads(line) for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n")


def noted(output: Path) -> set[int]:
    """The rows in the journal, counted from 0."""
    lines = output.with_name(f"{output.name}.journal").read_text().splitlines(keepends=True)[1:]
    return {int(line) - 1 for line in lines if line[-1] == "\n"}


def number(record: dict[str, Any]) -> int:
    return int(record["custom_id"].split()[1])


@pytest.mark.parametrize("part", range(5))
def test_a_run_killed_at_any_moment_goes_on_and_each_row_has_exactly_one_record(
    part: int, rows: Path, tmp_path: Path
) -> None:
    dice = random.Random(part)
    for moment in range(MOMENTS // 5):
        output = tmp_path / f"{moment}.jsonl"
        with FakeServer() as server:
            provider = Provider(server)
            provider.kill_at = (dice.randint(1, ROWS), dice.uniform(0, 0.003))
            process = provider.process = start(rows, output, server)
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL
            before, recorded = Counter(provider.asked), [number(record) for record in records(output)]
            in_doubt = noted(output) - set(recorded)
            assert len(recorded) == len(set(recorded))
            assert {row for row, count in before.items() if count} <= noted(output)

            summary = finish(start(rows, output, server))
            assert sorted(number(record) for record in records(output)) == list(range(ROWS))
            sent_again = [row for row in recorded if provider.asked[row] != before[row]]
            assert sent_again == []
            assert summary["maybe_billed_twice"] == len(in_doubt)
            assert summary["left"] == 0
            assert summary["earlier_answered"] + summary["earlier_failed"] == len(recorded)


def test_a_run_killed_many_times_in_a_row_ends_all_the_same(rows: Path, tmp_path: Path) -> None:
    output = tmp_path / "answers.jsonl"
    dice = random.Random(7)
    with FakeServer() as server:
        provider = Provider(server)
        for _ in range(8):
            provider.kill_at = (provider.asked.total() + dice.randint(1, 300), dice.uniform(0, 0.003))
            process = provider.process = start(rows, output, server)
            process.communicate(timeout=60)
            recorded = [number(record) for record in records(output)]
            assert len(recorded) == len(set(recorded))
        provider.process = None
        finish(start(rows, output, server))
        found = Counter(number(record) for record in records(output))
        assert found == Counter(range(ROWS))
        assert all(record["response"]["status_code"] == 400 for record in records(output) if record["error"])
