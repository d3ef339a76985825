"""Fork after use: children of a process that has made calls get their own answers, and the parent keeps its own.

Needed for each of these: the child drops what it inherited, by the fork hook of the C library that ``watch_forks`` in
``runtime.rs`` sets, so that children Python does not know of are served too. Without it children hang on a runtime
without threads, or read another process's answer from a connection both hold.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steadycall.testing import Answer, FakeServer, Request

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

HAZARDS = Path(__file__).parent / "hazards"
run = runpy.run_path(str(HAZARDS / "run.py"))["run"]


@pytest.fixture
def echo() -> Iterator[FakeServer]:
    def answer(request: Request) -> Answer:
        # Long enough for requests of several processes to be on their way at the same time.
        return Answer(json=request.json(), delay=0.005)

    with FakeServer(answer) as server:
        yield server


@pytest.mark.parametrize(
    "scenario",
    [
        "after_calls",
        "while_threads_call",
        "during_the_first_calls",  # fails if a once-cell guards a look-up: a child that has it half made waits for ever
        "from_another_thread",
        "without_hooks",
        "that_end_like_any_process",
        "grandchildren",
        "multiprocessing_pool",
    ],
)
def test_100_of_100_children_get_their_own_answer_and_the_parent_goes_on(echo: FakeServer, scenario: str) -> None:
    # Python 3.12 warns of os.fork in a process with threads, which is what is tried here.
    outcome = run("forks", scenario, echo.url, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert outcome == {"right": 100, "parent_right": True}
    # Nobody had to ask twice, so nobody read what was meant for another.
    asked = [request.body for request in echo.requests]
    assert len(asked) == len(set(asked))


def test_workers_of_gunicorn_preload_answer_each_request_with_its_own_answer(echo: FakeServer) -> None:
    pytest.importorskip("gunicorn")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        gunicorn = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--preload", "--workers=2", "--timeout=10", "--graceful-timeout=5",
             "--log-level=warning", f"--bind=fd://{listener.fileno()}", f"--pythonpath={HAZARDS}",
             "preloaded:application"],
            env=os.environ | {"ECHO_URL": echo.url},
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )  # fmt: skip
    try:

        def ask(number: int) -> dict[str, object]:
            # The listener was open before gunicorn was: an early request waits in its queue.
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{number}", timeout=30) as answer:
                return dict(json.load(answer))

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(ask, range(60)))
    finally:
        _end(gunicorn)
    assert [answer["id"] for answer in answers] == [str(number) for number in range(60)]
    assert all(answer["forked"] for answer in answers)
    assert len({answer["pid"] for answer in answers}) == 2


def test_workers_of_celery_prefork_answer_each_task_with_its_own_answer(
    echo: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("celery")
    monkeypatch.setenv("ECHO_URL", echo.url)
    monkeypatch.setenv("BROKER_FOLDER", str(tmp_path))
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "--workdir", str(HAZARDS), "--app=prefork", "worker", "--pool=prefork",
         "--concurrency=2", "--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"],
        env=os.environ | {"PYTHONPATH": _python_path()},
        start_new_session=True,
    )  # fmt: skip
    try:
        app = runpy.run_path(str(HAZARDS / "prefork.py"))["app"]
        results = [app.send_task("ask", [number]) for number in range(40)]
        answers = [result.get(timeout=60, interval=0.02) for result in results]
    finally:
        _end(worker)
    assert [answer["id"] for answer in answers] == list(range(40))
    assert all(answer["forked"] for answer in answers)
    assert len({answer["pid"] for answer in answers}) == 2


def _python_path() -> str:
    """Ours, made absolute: the worker changes its folder."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(os.path.abspath(part) for part in given.split(os.pathsep) if part)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server that has a session of its own; what does not go when asked is killed, workers too."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
