"""Blocking calls beside other threads and inside running loops."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer


def counted_during(wait: object) -> int:
    """How far another thread counts in pure Python while ``wait`` is called here."""
    count = 0
    enough = threading.Event()

    def work() -> None:
        nonlocal count
        while not enough.is_set():
            count += 1

    thread = threading.Thread(target=work)
    thread.start()
    wait()  # type: ignore[operator]
    enough.set()
    thread.join()
    return count


@pytest.mark.slow
def test_other_threads_run_at_full_speed_during_a_call() -> None:
    # Fails if the call held the GIL while it waits: the count would be next to nothing.
    with FakeServer(Answer(json=1, delay=0.4)) as server:

        def share() -> float:
            alone = counted_during(lambda: time.sleep(0.4))
            return counted_during(lambda: steadycall.call(server.url, {})) / alone

        best = 0.0
        for _ in range(3):
            best = max(best, share())
            if best >= 0.7:
                break
    assert best >= 0.7


@pytest.mark.slow
def test_other_threads_run_at_full_speed_during_an_acall() -> None:
    with FakeServer(Answer(json=1, delay=0.4)) as server:

        def share() -> float:
            alone = counted_during(lambda: asyncio.run(asyncio.sleep(0.4)))
            return counted_during(lambda: asyncio.run(steadycall.acall(server.url, {}))) / alone

        best = 0.0
        for _ in range(3):
            best = max(best, share())
            if best >= 0.7:
                break
    assert best >= 0.7


def test_a_blocking_call_inside_a_running_loop_works_and_the_loop_goes_on() -> None:
    with FakeServer(lambda request: Answer(json=request.json())) as server:

        async def main() -> list[object]:
            before = asyncio.create_task(steadycall.acall(server.url, "before"))
            blocking = [steadycall.call(server.url, number) for number in range(3)]
            elsewhere = await asyncio.to_thread(steadycall.call, server.url, "elsewhere")
            return [*blocking, elsewhere, await before, await steadycall.acall(server.url, "after")]

        assert asyncio.run(main()) == [0, 1, 2, "elsewhere", "before", "after"]


def test_calls_of_32_threads_get_their_own_answers() -> None:
    with FakeServer(lambda request: Answer(json=request.json())) as server:
        with ThreadPoolExecutor(32) as threads:
            numbers = range(640)
            assert list(threads.map(lambda number: steadycall.call(server.url, number), numbers)) == list(numbers)
