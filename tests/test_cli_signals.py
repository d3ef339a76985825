"""``steadycall bulk`` on a real terminal: its bar, Ctrl-C once and twice, and that the same command goes on."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from steadycall.testing import FakeServer, answers

pty = pytest.importorskip("pty")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
# Takes the terminal it was given as its own, so that a Ctrl-C typed there is a signal to it.
OWN = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
PATIENCE = 30.0


class Terminal:
    """A command with a terminal for its stderr; its stdout goes to a pipe."""

    def __init__(self, *arguments, ignored=None, **environment):
        self._master, slave = pty.openpty()
        command = [sys.executable, "-c", OWN, sys.executable, "-m", "steadycall", *map(str, arguments)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "TERM": "xterm",
            "COLUMNS": "100",
            **environment,
        }
        before = None if ignored is None else signal.signal(ignored, signal.SIG_IGN)  # as nohup does; it is inherited
        self._process = subprocess.Popen(command, env=environment, stdin=slave, stderr=slave, stdout=subprocess.PIPE)
        if ignored is not None:
            signal.signal(ignored, before)
        os.close(slave)
        self.shown = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        if self._master is not None:
            os.close(self._master)

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            assert self._read(), self.shown

    def press_ctrl_c(self):
        os.write(self._master, b"\x03")

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def hang_up(self):
        os.close(self._master)
        self._master = None

    def leave(self):
        """The exit code of one that hung up."""
        self._process.stdout.read()
        return self._process.wait(PATIENCE)

    def end(self):
        """The exit code, and what went to stdout."""
        while self._read():
            pass
        return self._process.wait(PATIENCE), self._process.stdout.read().decode()

    def _read(self):
        if not select.select([self._master], [], [], PATIENCE)[0]:
            return False
        try:
            found = os.read(self._master, 65536)
        except OSError:  # Linux says so when the other side has closed
            return False
        self.shown += found.decode()
        return bool(found)


class Gated:
    """Answers so many requests at once, and the others when it is opened."""

    def __init__(self, free):
        self._free, self._lock = free, threading.Lock()
        self.gate = threading.Event()

    def __call__(self, _request):
        with self._lock:
            self._free -= 1
            free = self._free >= 0
        if not free:
            self.gate.wait(PATIENCE)
        return answers.openai.ok()


@pytest.fixture
def gated():
    script = Gated(free=20)
    with FakeServer(script) as server:
        yield server, script
        script.gate.set()


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def arguments(folder, server):
    rows = [{"custom_id": f"row {n}", "method": "POST", "url": "/v1/x", "body": {"model": "m"}} for n in range(1, 61)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [folder / "in.jsonl", "-o", folder / "out.jsonl"]
    return ["bulk", *files, "--base-url", server.url_for("/v1"), "--concurrency", 4]


def finish(folder, server):
    """The same command again, without anybody who stops it."""
    with Terminal(*arguments(folder, server)) as again:
        code, told = again.end()
    assert code == 0, again.shown
    return told


@pytest.mark.parametrize("ask", [Terminal.press_ctrl_c, Terminal.terminate], ids=["Ctrl-C", "SIGTERM"])
def test_once_finishes_what_is_in_flight_and_says_how_to_go_on(gated, tmp_path, ask):
    server, script = gated
    with Terminal(*arguments(tmp_path, server)) as terminal:
        server.wait_for(lambda it: len(it.requests) == 24, timeout=PATIENCE)
        ask(terminal)
        terminal.wait_for("finishing 4 in flight; Ctrl-C again stops now")
        script.gate.set()
        code, told = terminal.end()
    assert code == 3
    assert "36 rows are left; to go on: steadycall bulk" in terminal.shown
    assert "answered      24 of 60 rows" in told
    assert len(written(tmp_path / "out.jsonl")) == len(server.requests) == 24
    assert "answered      60 of 60 rows (24 by earlier runs)" in finish(tmp_path, server)
    assert len(server.requests) == 60


def test_twice_stops_now_and_the_same_command_goes_on(gated, tmp_path):
    server, script = gated
    with Terminal(*arguments(tmp_path, server)) as terminal:
        server.wait_for(lambda it: len(it.requests) == 24, timeout=PATIENCE)
        terminal.press_ctrl_c()
        terminal.wait_for("Ctrl-C again stops now")
        terminal.press_ctrl_c()
        code, told = terminal.end()
    assert code == 130
    assert "stopped now: what was in flight may have been billed; to go on: steadycall bulk" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert "answered      20 of 60 rows" in told
    script.gate.set()
    assert "billed twice? 4 rows" in finish(tmp_path, server)
    ids = [line["custom_id"] for line in written(tmp_path / "out.jsonl")]
    assert sorted(ids) == sorted({f"row {n}" for n in range(1, 61)})


def test_a_terminal_shows_a_bar_and_the_figures_and_nothing_of_it_goes_to_stdout(tmp_path):
    with FakeServer(answers.openai.ok().replace(delay=0.05)) as server:
        with Terminal(*arguments(tmp_path, server)) as terminal:
            code, told = terminal.end()
    assert code == 0
    for sign in ("━", "60 of 60 rows", "requests/s", "tokens/min", "ETA "):
        assert sign in terminal.shown
    assert "\x1b" not in told
    assert "answered      60 of 60 rows" in told


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_wants_no_colour_gets_none(tmp_path, environment):
    with FakeServer(answers.openai.ok().replace(delay=0.05)) as server:
        with Terminal(*arguments(tmp_path, server), **environment) as terminal:
            assert terminal.end()[0] == 0
    assert "\x1b[3" not in terminal.shown
    assert "\x1b[9" not in terminal.shown
    assert ("\x1b" in terminal.shown) is ("TERM" not in environment)  # the bar itself moves, where it can


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "2> >(exec head -n 1 > /dev/null)"])
def test_a_run_whose_words_cannot_be_written_goes_on_to_its_end(tmp_path, where):
    with FakeServer(answers.openai.ok().replace(delay=0.02)) as server:
        command = [sys.executable, "-m", "steadycall", *map(str, arguments(tmp_path, server)), "--every", "0.05"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run(
            ["bash", "-c", f"{shlex.join(command)} {where}"], env=environment, stdout=subprocess.PIPE, check=False
        )
        assert (done.returncode, len(server.requests)) == (0, 60)
    assert b"answered      60 of 60 rows" in done.stdout


def test_a_terminal_that_went_away_does_not_end_the_run(gated, tmp_path):
    server, script = gated
    with Terminal(*arguments(tmp_path, server), ignored=signal.SIGHUP) as terminal:
        server.wait_for(lambda it: len(it.requests) == 24, timeout=PATIENCE)
        terminal.hang_up()
        script.gate.set()
        assert terminal.leave() == 0
    assert len(written(tmp_path / "out.jsonl")) == len(server.requests) == 60
