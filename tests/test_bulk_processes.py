"""A bulk run and the system around it: full disks, foreign files, Ctrl-C, forks, exits, and memory."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer, answers

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="limits and forks of POSIX")]

hazards = runpy.run_path(str(Path(__file__).parent / "hazards" / "run.py"))
PATH = "/v1/chat/completions"
OK = answers.openai.ok("Hi.")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        server.answer(PATH, OK)
        yield server


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for number in range(200):
            body = {"model": "m", "messages": [{"role": "user", "content": f"Say {number}."}]}
            file.write(json.dumps({"custom_id": f"row {number}", "url": PATH, "body": body}) + "\n")
    return path


def ids(output: Path) -> list[str]:
    return sorted(json.loads(line)["custom_id"] for line in output.read_text().splitlines())


def run(rows: Path, output: Path, server: FakeServer, **settings: Any) -> Any:
    given = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return hazards["run"]("bulk", str(rows), str(output), f"{server.url}/v1", *given)


def test_a_full_disk_ends_a_run_cleanly_and_the_next_one_goes_on(
    rows: Path, tmp_path: Path, server: FakeServer
) -> None:
    output = tmp_path / "answers.jsonl"
    ended = run(rows, output, server, file_size=20_000)
    assert (ended["error"], ended["errno"]) == ("OSError", errno.EFBIG)
    assert str(output) in ended["text"]
    written = ids(output)
    assert 10 < len(written) < 200
    assert output.read_bytes().endswith(b"\n")
    again = run(rows, output, server)
    assert (again["left"], again["earlier_answered"]) == (0, len(written))
    assert ids(output) == sorted(f"row {number}" for number in range(200))
    # Answers that came and found no room, and rows that were noted and given up before they were sent.
    assert 0 <= again["maybe_billed_twice"] - (len(server.requests) - 200) <= 32


def test_a_disk_that_is_full_from_the_start_is_told_of_before_the_first_request(
    rows: Path, tmp_path: Path, server: FakeServer
) -> None:
    ended = run(rows, tmp_path / "answers.jsonl", server, file_size=10)
    assert (ended["error"], ended["errno"]) == ("OSError", errno.EFBIG)
    assert not server.requests


def test_a_journal_that_cannot_be_written_stops_the_run_before_a_row_is_sent_unnoted(
    rows: Path, tmp_path: Path, server: FakeServer
) -> None:
    output = tmp_path / "answers.jsonl"
    # Room for the head of the journal and a few rows in it, and for no answer.
    ended = run(rows, output, server, file_size=175)
    assert ended["error"] == "OSError"
    noted = output.with_name("answers.jsonl.journal").read_text().splitlines()[1:]
    assert len(server.requests) <= len(noted)
    assert run(rows, output, server)["left"] == 0
    assert ids(output) == sorted(f"row {number}" for number in range(200))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone can become somebody else")
def test_a_folder_that_may_not_be_written_to_is_told_of_before_the_first_request(
    rows: Path, tmp_path: Path, server: FakeServer
) -> None:
    script = (
        "import os, sys, steadycall\n"
        "import steadycall._bulk\n"
        "os.setuid(65534)\n"
        "try:\n"
        "    steadycall.bulk(sys.argv[1], output=sys.argv[2], base_url=sys.argv[3])\n"
        "except OSError as error:\n"
        "    print(type(error).__name__, error.filename)\n"
    )
    # Read through descriptors: nobody may not even look into this folder.
    with rows.open() as file:
        output = tmp_path / "answers.jsonl"
        command = [sys.executable, "-c", script, f"/dev/fd/{file.fileno()}", str(output), server.url]
        ended = subprocess.run(command, pass_fds=[file.fileno()], capture_output=True, text=True, check=False)
    assert ended.stdout.split()[0] == "PermissionError", ended.stderr
    assert not server.requests


def test_ctrl_c_ends_a_run_at_once_and_the_next_one_goes_on(rows: Path, tmp_path: Path, server: FakeServer) -> None:
    output = tmp_path / "answers.jsonl"
    server.script(PATH, [OK] * 50, then=Answer(never=True))
    process = hazards["start"]("bulk", str(rows), str(output), f"{server.url}/v1")
    assert server.wait_for(lambda server: len(server.requests) == 50 + 32, timeout=20)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    said = json.loads(hazards["end"](process))
    assert said["error"] == "KeyboardInterrupt"
    assert time.monotonic() - began < 3
    server.answer(PATH, OK)
    again = run(rows, output, server)
    assert (again["earlier_answered"], again["left"], again["maybe_billed_twice"]) == (50, 0, 32)


def test_an_exit_with_a_run_in_flight_is_clean(rows: Path, tmp_path: Path, server: FakeServer) -> None:
    server.script(PATH, [OK] * 20, then=Answer(never=True))
    script = (
        "import sys, threading, steadycall\n"
        "run = steadycall.BulkRun(sys.argv[1], output=sys.argv[2], base_url=sys.argv[3]).start()\n"
        "threading.Thread(target=run.wait, daemon=True).start()\n"
        "while run.progress().answered < 20: run.wait(0.01)\n"
    )
    command = [sys.executable, "-c", script, str(rows), str(tmp_path / "answers.jsonl"), server.url]
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert time.monotonic() - began < 10
    assert len(ids(tmp_path / "answers.jsonl")) == 20


def in_child(run: steadycall.BulkRun, rows: Path, output: Path, url: str) -> None:
    for method in (run.progress, run.stop, run.abort, run.wait):
        with pytest.raises(RuntimeError, match="forked"):
            method()
    del run
    assert steadycall.bulk(rows, output=output, base_url=url).answered == 200
    os._exit(7)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_fork_leaves_its_parents_run_alone_and_makes_its_own(
    rows: Path, tmp_path: Path, server: FakeServer
) -> None:
    server.answer(PATH, OK.replace(delay=0.01))
    with steadycall.BulkRun(rows, output=tmp_path / "parents.jsonl", base_url=server.url) as parents:
        server.wait_for(lambda server: len(server.requests) > 5)
        context = multiprocessing.get_context("fork")
        child = context.Process(target=in_child, args=(parents, rows, tmp_path / "childs.jsonl", server.url))
        child.start()
        summary = parents.wait(30)
        child.join(30)
    assert child.exitcode == 7
    assert summary is not None
    assert summary.answered == 200
    assert ids(tmp_path / "parents.jsonl") == ids(tmp_path / "childs.jsonl")


def test_memory_does_not_grow_with_the_file(tmp_path: Path, server: FakeServer) -> None:
    rows = tmp_path / "rows.jsonl"
    text = "x" * 50_000
    with rows.open("w") as file:
        for number in range(4_000):
            file.write(json.dumps({"custom_id": str(number), "url": PATH, "body": {"model": "m", "text": text}}) + "\n")
    script = (
        "import resource, sys, steadycall\n"
        "import steadycall._bulk\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "summary = steadycall.bulk(sys.argv[1], output=sys.argv[2], base_url=sys.argv[3], concurrency=8)\n"
        "print(summary.answered, peak() - before)\n"
    )
    command = [sys.executable, "-c", script, str(rows), str(tmp_path / "answers.jsonl"), server.url]
    answered, grown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert int(answered) == 4_000
    # 200 MB of rows; thirty-two of them are open at once.
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 40_000_000
