"""Cancelling a task closes its socket, at any moment, over either bridge to the event loop."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer, Request

IN_FLIGHT = 100


@pytest.fixture(autouse=True, params=["own bridge", "fallback"])
def bridge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two serves the loops that a test makes."""
    if request.param == "fallback":
        monkeypatch.setenv("STEADYCALL_NO_ADD_READER", "1")
    return str(request.param)


@pytest.fixture
def echo() -> Iterator[FakeServer]:
    with FakeServer(lambda request: Answer(json=request.json())) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[FakeServer]:
    with FakeServer(Answer(never=True)) as server:
        yield server


async def ask(server: FakeServer, number: object) -> bool:
    return bool(await steadycall.acall(server.url, {"id": number}) == {"id": number})


async def ask_many(server: FakeServer, count: int = 20) -> bool:
    return all(await asyncio.gather(*(ask(server, number) for number in range(count))))


async def closing_takes(server: FakeServer, close: Callable[[], Any]) -> float:
    """Seconds from ``close`` until the server has seen the end of all connections in flight."""
    seen = server.aborted
    await server.await_for(lambda s: s.in_flight == IN_FLIGHT, 20)
    began = time.monotonic()
    close()
    await server.await_for(lambda s: s.aborted == seen + IN_FLIGHT, 10)
    return time.monotonic() - began


def best_of_three(measure: Callable[[], Awaitable[float]], bound: float) -> float:
    best = float("inf")
    for _ in range(3):
        best = min(best, asyncio.run(measure()))  # type: ignore[arg-type]  # they are coroutines
        if best < bound:
            break
    return best


def test_cancelling_100_tasks_closes_their_100_sockets_within_300_ms(silent: FakeServer) -> None:
    # Fails without the abort in `acall`'s `except BaseException`: the background task would go on.
    async def measure() -> float:
        tasks = [asyncio.create_task(steadycall.acall(silent.url, {})) for _ in range(IN_FLIGHT)]
        took = await closing_takes(silent, lambda: [task.cancel() for task in tasks])
        # The tasks are kept, and with them the tracebacks that hold acall's frames: closing must not wait for those.
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}
        return took

    assert best_of_three(measure, 0.3) < 0.3


def test_asyncio_timeout_closes_100_sockets_within_300_ms(silent: FakeServer) -> None:
    async def hurried() -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await steadycall.acall(silent.url, {})

    limits: list[asyncio.Timeout] = []

    async def measure() -> float:
        limits.clear()
        tasks = [asyncio.create_task(hurried()) for _ in range(IN_FLIGHT)]
        now = asyncio.get_running_loop().time
        took = await closing_takes(silent, lambda: [limit.reschedule(now()) for limit in limits])
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ended} == {TimeoutError}
        return took

    assert best_of_three(measure, 0.3) < 0.3


@pytest.mark.slow
def test_cancelling_at_any_moment_gives_the_own_answer_or_cancelled_error_and_nothing_else(
    echo: FakeServer, bridge: str
) -> None:
    # Fails if a late answer reached a future that is done, or the next call on its connection.
    dice = random.Random(f"the same moments in every run of the {bridge}")
    complaints: list[dict[str, Any]] = []

    async def main() -> set[str]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        ends = set()
        for number in range(300):
            task = asyncio.create_task(steadycall.acall(echo.url, {"id": number}))
            if number % 3 == 0:
                await asyncio.sleep(dice.uniform(0, 0.004))
            else:  # close to the moment when the answer is handed over, counted in turns of the loop
                await echo.await_for(lambda s, n=number: s.in_flight == 0 and asked(s, n), 5)  # type: ignore[misc]
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
            task.cancel()
            try:
                assert await task == {"id": number}
                ends.add("answer")
            except asyncio.CancelledError:
                ends.add("cancelled")
        assert await ask_many(echo)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return ends

    def asked(server: FakeServer, number: int) -> bool:
        # Among the last: a request that was cancelled may be read after the one that followed it.
        return any(request.json() == {"id": number} for request in server.requests[-5:])

    assert asyncio.run(main()) == {"answer", "cancelled"}
    gc.collect()
    assert complaints == []


def test_cancelling_one_of_many_leaves_the_others_alone() -> None:
    all_are_here = threading.Event()

    def answer_then(request: Request) -> Answer:
        all_are_here.wait(10)
        return Answer(json=request.json())

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(steadycall.acall(server.url, number)) for number in range(40)]
        await server.await_for(lambda s: s.in_flight == 40)
        for task in tasks[::2]:
            task.cancel()
        all_are_here.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with FakeServer(answer_then) as server:
        ends = asyncio.run(main())
    assert ends[1::2] == list(range(1, 40, 2))
    assert {type(end) for end in ends[::2]} == {asyncio.CancelledError}
