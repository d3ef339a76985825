"""Forks, threads and Ctrl-C below an httpx client."""

from __future__ import annotations

import os
import signal
import threading
import time

import httpx
import pytest

from steadycall import Policy, Transport
from steadycall.testing import Answer, FakeServer

from .over_transport import sse

DELTA = 'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
SLOW = sse(DELTA * 40).replace(drip=(len(DELTA), 0.02), chunked=True)


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
        assert read.decode() == DELTA * 40


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
        assert texts == [DELTA * 40] * 8

        with http.stream("POST", server.url_for("/x"), json={}) as response:
            elsewhere = threading.Thread(target=lambda: texts.append(response.read().decode()))
            elsewhere.start()
            elsewhere.join()
        assert texts[-1] == DELTA * 40
