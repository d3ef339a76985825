"""acall on loops of every kind: over the package's own bridge, and over the one for loops that watch no pipe."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Iterator

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer, Request


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


def test_asyncio_run_may_be_used_again(echo: FakeServer) -> None:
    # Fails if the bridge of the first loop served the second, which may live at the same address.
    assert [asyncio.run(ask_many(echo)) for _ in range(5)] == [True] * 5


def test_eight_loops_in_eight_threads_get_their_own_answers(echo: FakeServer) -> None:
    right: list[bool] = []

    def work(name: int) -> None:
        async def main() -> bool:
            return all(await asyncio.gather(*(ask(echo, [name, number]) for number in range(50))))

        right.extend(asyncio.run(main()) for _ in range(2))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert right == [True] * 16


def test_uvloop_runs_calls_and_closes_the_sockets_of_cancelled_ones(echo: FakeServer, silent: FakeServer) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> bool:
        task = asyncio.create_task(steadycall.acall(silent.url, {}))
        await silent.await_for(lambda s: s.in_flight == 1)
        task.cancel()
        await silent.await_for(lambda s: s.aborted == 1)
        return await ask_many(echo, 100)

    assert uvloop.run(main())
    assert uvloop.run(ask_many(echo))
    assert asyncio.run(ask_many(echo))


def test_a_loop_closed_with_calls_in_flight_disturbs_nobody(echo: FakeServer) -> None:
    # Fails if the background thread called into the loop: it would raise "Event loop is closed" there.
    loop_is_closed = threading.Event()

    def answer_then(request: Request) -> Answer:
        loop_is_closed.wait(10)
        return Answer(json=request.json())

    with FakeServer(answer_then) as slow:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(steadycall.acall(slow.url, {})) for _ in range(20)]
        loop.run_until_complete(slow.await_for(lambda s: s.in_flight == 20))
        loop.close()
        assert asyncio.run(ask_many(echo))
        loop_is_closed.set()
        slow.wait_for(lambda s: s.in_flight == 0)  # the answers arrive, and nobody is there
        assert asyncio.run(ask_many(echo))
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as meant here
        del tasks, loop, task
        gc.collect()
        assert asyncio.run(ask_many(echo))


def test_200_at_once_get_their_own_answers_through_failures_and_waits() -> None:
    tried: set[int] = set()

    def first_busy_then_right(request: Request) -> Answer:
        number = request.json()["id"]
        if number in tried:
            return Answer(json={"id": number})
        tried.add(number)
        return Answer(503)

    async def main() -> list[dict[str, int]]:
        calls = (steadycall.acall(server.url, {"id": number}, base=0.01) for number in range(200))
        return await asyncio.gather(*calls)

    with FakeServer(first_busy_then_right) as server:
        assert asyncio.run(main()) == [{"id": number} for number in range(200)]
        assert len(server.requests) == 400


def test_callbacks_see_the_context_of_their_caller() -> None:
    # Fails if observers ran where the answer arrives, in the loop's own context (`HttpCall::arrived`).
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[tuple[str, str]] = []

    def note(what: str) -> None:
        seen.append((what, who.get()))

    async def asked_for_headers() -> dict[str, str]:
        note("headers")
        return {}

    async def one(name: str, url: str) -> None:
        who.set(name)
        await steadycall.acall(
            url,
            {},
            headers=asked_for_headers,
            on_retry=lambda _: note("on_retry"),
            sleep=lambda _: note("sleep"),
            on_end=lambda _: note("on_end"),
        )

    async def main() -> None:
        await asyncio.gather(one("ann", server.url_for("/ann")), one("bob", server.url_for("/bob")))

    with FakeServer() as server:
        server.answer("/ann", 503, Answer(json=1))
        server.answer("/bob", 503, Answer(json=1))
        asyncio.run(main())
    whole = ["headers", "on_retry", "sleep", "headers", "on_end"]
    for name in ("ann", "bob"):
        assert [what for what, caller in seen if caller == name] == whole


def test_trio_is_refused_by_name() -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        await steadycall.acall("http://127.0.0.1:9", {})

    with pytest.raises(steadycall.ConfigError, match="trio"):
        trio.run(main)
