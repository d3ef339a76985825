"""Forks, threads, Ctrl-C and other hazards below an httpx client."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

from steadycall import AsyncTransport, Policy, Transport
from steadycall.testing import Answer, FakeServer

from .over_transport import sse

DELTA = 'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
DONE = "data: [DONE]\n\n"
SLOW = sse(DELTA * 40 + DONE).replace(drip=(len(DELTA), 0.02), chunked=True)


def interrupt_after(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


STALLS = sse(DELTA * 2).replace(drip=(len(DELTA), 30.0), chunked=True)


@pytest.mark.parametrize("answer", [Answer(never=True), STALLS], ids=["head", "body"])
def test_ctrl_c_ends_a_request_at_once_and_closes_its_connection(answer: Answer) -> None:
    with FakeServer(answer) as server, httpx.Client(transport=Transport(), timeout=30) as http:
        began = time.monotonic()
        interrupt_after(0.1)
        with pytest.raises(KeyboardInterrupt), http.stream("POST", server.url_for("/x"), json={}) as response:
            list(response.iter_bytes())
        assert time.monotonic() - began < 1.0
        server.wait_for(lambda server: server.connections_open == 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_of_fork_leaves_an_open_answer_of_its_parent_alone() -> None:
    with FakeServer() as server, httpx.Client(transport=Transport(Policy(tries=1))) as http:
        server.answer("/slow", SLOW)
        server.answer("/quick", Answer(json={"a": 1}))
        with http.stream("POST", server.url_for("/slow"), json={}) as response:
            pieces = response.iter_bytes()
            read = next(pieces)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    response.close()
                    answer = http.post(server.url_for("/quick"), json={}).json()
                    code = 0 if answer == {"a": 1} else 2
                finally:
                    os._exit(code)
            read += b"".join(pieces)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert read.decode() == DELTA * 40 + DONE


def test_threads_share_a_transport_and_read_each_others_answers() -> None:
    with FakeServer(SLOW) as server, httpx.Client(transport=Transport()) as http:
        texts: list[str] = []

        def work() -> None:
            texts.append(http.post(server.url_for("/x"), json={}).text)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == [DELTA * 40 + DONE] * 8

        with http.stream("POST", server.url_for("/x"), json={}) as response:
            elsewhere = threading.Thread(target=lambda: texts.append(response.read().decode()))
            elsewhere.start()
            elsewhere.join()
        assert texts[-1] == DELTA * 40 + DONE


def test_a_loop_that_cannot_watch_a_pipe_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADYCALL_NO_ADD_READER", "1")
    with FakeServer(503, sse(DELTA, DONE), Answer(json={"a": 1})) as server:

        async def work() -> tuple[str, object]:
            transport = AsyncTransport(Policy(tries=2), sleep=lambda seconds: None)
            async with httpx.AsyncClient(transport=transport) as http:
                streamed = (await http.post(server.url_for("/x"), json={})).text
                return streamed, (await http.post(server.url_for("/x"), json={})).json()

        assert asyncio.run(work()) == (DELTA + DONE, {"a": 1})
        assert len(server.requests) == 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
def test_answers_that_are_given_up_leave_no_file_open() -> None:
    with FakeServer(SLOW) as server, httpx.Client(transport=Transport()) as http:

        def give_up(times: int) -> int:
            for _ in range(times):
                with http.stream("POST", server.url_for("/x"), json={}) as response:
                    next(response.iter_bytes())
            server.wait_for(lambda server: server.connections_open == 0)
            return len(os.listdir("/proc/self/fd"))

        assert give_up(30) <= give_up(3) + 3


def test_nothing_of_httpx_or_an_sdk_is_imported_for_it() -> None:
    program = """
import sys, steadycall
steadycall.Transport(); steadycall.AsyncTransport(); steadycall.wrap
found = {name.partition(".")[0] for name in sys.modules}
print(sorted(found & {"httpx", "httpx2", "openai", "anthropic", "groq", "google", "mistralai", "asyncio"}))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
