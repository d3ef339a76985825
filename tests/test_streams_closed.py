"""A stream that is closed by another task or thread, whatever it waits for: the reader ends at once, nothing is sent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

import steadycall
from steadycall import AsyncClient, Client, Closed, ConcurrencyLimit, Policy, RateLimit
from steadycall.testing import Answer, FakeServer

PATH = "/v1/chat/completions"
PAYLOAD = {"model": "m", "stream": True, "messages": []}
HI = "data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}) + "\n\n"
SSE = {"content-type": "text/event-stream"}
STALLED = Answer(headers=SSE, body=HI + ": ping\n\n" * 1000, drip=(len(HI), 60.0), chunked=True)
SILENT = Answer(never=True)
WHOLE = Answer(headers=SSE, body=HI + "data: [DONE]\n\n", chunked=True)
AT_ONCE = 10.0
"""Seconds that only a reader who hangs takes."""


class Front:
    """One of the two fronts; a behaviour test runs in both."""

    def __init__(self, name: str) -> None:
        self.name = name

    def client(self, server: FakeServer, **options: Any) -> Any:
        return (Client if self.name == "sync" else AsyncClient)(server.url, **options)

    def closed(self, client: Any, waits: Callable[[], bool], read: str = "collect") -> BaseException | None:
        """What a reader ends with whose stream is closed once ``waits`` says it waits for what it is to wait for."""
        stream = client.stream(PATH, PAYLOAD)
        if self.name == "sync":
            return self._closed_by_thread(stream, waits, read)
        return asyncio.run(self._closed_by_task(stream, waits, read))

    @staticmethod
    def _closed_by_thread(stream: Any, waits: Callable[[], bool], read: str) -> BaseException | None:
        ended: list[BaseException | None] = []

        def reads() -> None:
            try:
                if read == "collect":
                    stream.collect()
                else:
                    list(stream)
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        thread = threading.Thread(target=reads, daemon=True)
        thread.start()
        while not waits():
            thread.join(0.01)
            assert not ended, ended
        stream.close()
        thread.join(AT_ONCE)
        assert ended, "it still reads"
        return ended[0]

    @staticmethod
    async def _closed_by_task(stream: Any, waits: Callable[[], bool], read: str) -> BaseException | None:
        async def reads() -> None:
            if read == "collect":
                await stream.collect()
            else:
                async for _ in stream:
                    pass

        task = asyncio.create_task(reads())
        while not waits():
            await asyncio.sleep(0.01)
            assert not task.done(), task
        await stream.aclose()
        done, _ = await asyncio.wait([task], timeout=AT_ONCE)
        assert done, "it still reads"
        return task.exception()


@pytest.fixture(params=["sync", "async"])
def front(request: pytest.FixtureRequest) -> Front:
    return Front(request.param)


@pytest.mark.parametrize("read", ["collect", "for"])
@pytest.mark.parametrize("answer", [STALLED, SILENT], ids=["reading", "opening"])
def test_who_reads_a_stream_that_is_closed_ends_at_once(front: Front, answer: Answer, read: str) -> None:
    with FakeServer(answer) as server:
        client = front.client(server, concurrency=1)
        error = front.closed(client, lambda: len(server.requests) == 1, read)
        assert isinstance(error, Closed) and isinstance(error, RuntimeError)
        assert client.in_flight == 0
        server.wait_for(lambda s: s.connections_open == 0)


def test_a_stream_that_is_closed_in_the_queue_is_never_sent(front: Front) -> None:
    with FakeServer(WHOLE) as server:
        client = front.client(server, concurrency=ConcurrencyLimit(1, queue=5))
        blocker = _slot_of(client, server)
        error = front.closed(client, lambda: client._gates.waiting == 1)
        assert isinstance(error, Closed)
        assert client._gates.waiting == 0
        blocker.give_up()
        assert client.in_flight == 0
        assert server.requests == []


def _slot_of(client: Any, server: FakeServer) -> Any:
    """A slot of the client's, taken."""
    host = server.url.split("/")[2]
    passing = client._gates.approach(host, PATH, [], b'{"model": "m"}', "", None, None, 60.0, False)
    assert passing.look() is None
    return passing


def test_a_stream_that_is_closed_while_it_waits_for_the_rate_is_never_sent(front: Front) -> None:
    with FakeServer(WHOLE) as server:
        client = front.client(server, rate=RateLimit(requests_per_minute=1, burst=1))
        _slot_of(client, server)
        error = front.closed(client, lambda: client._gates.waiting == 1)
        assert isinstance(error, Closed)
        assert (client._gates.waiting, server.requests) == (0, [])


def test_a_stream_that_is_closed_in_the_sleep_before_a_retry_sends_no_other(front: Front) -> None:
    sleeps, go_on = [], threading.Event()

    async def asleep(seconds: float) -> None:
        sleeps.append(seconds)
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        go_on.wait(AT_ONCE)

    def waits() -> bool:
        if sleeps:
            threading.Timer(0.2, go_on.set).start()
        return bool(sleeps)

    with FakeServer(503, WHOLE) as server:
        client = front.client(
            server, sleep=sleep if front.name == "sync" else asleep, policy=Policy(tries=2), concurrency=1
        )
        assert isinstance(front.closed(client, waits), Closed)
        assert (client.in_flight, len(server.requests)) == (0, 1)


def test_a_stream_that_is_closed_while_its_headers_are_made_is_never_sent(front: Front) -> None:
    asked, go_on = threading.Event(), threading.Event()

    async def amade() -> dict[str, str]:
        asked.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        return {}

    def made() -> dict[str, str]:
        asked.set()
        go_on.wait(AT_ONCE)
        return {}

    def waits() -> bool:
        if asked.is_set():
            threading.Timer(0.2, go_on.set).start()
        return asked.is_set()

    with FakeServer(WHOLE) as server:
        client = front.client(server, headers=made if front.name == "sync" else amade, concurrency=1)
        assert isinstance(front.closed(client, waits), Closed)
        assert (client.in_flight, server.requests) == (0, [])


def test_a_closed_stream_gives_nothing_as_if_it_were_all() -> None:
    with FakeServer(STALLED) as server:
        client = Client(server.url)
        stream = client.stream(PATH, PAYLOAD)
        stream.close()
        with pytest.raises(Closed):
            stream.collect()
        with pytest.raises(Closed):
            stream.__enter__()
        assert server.requests == []
        begun = client.stream(PATH, PAYLOAD)
        with begun:
            next(begun)
        with pytest.raises(Closed):
            begun.collect()


def test_an_sdk_s_stream_that_is_closed_by_another_task_ends_who_reads_it() -> None:
    openai = pytest.importorskip("openai")

    async def main(server: FakeServer) -> None:
        client = steadycall.wrap(openai.AsyncOpenAI(api_key="k", base_url=server.url + "/v1"))
        stream = await client.chat.completions.create(**PAYLOAD)

        async def reads() -> None:
            async for _ in stream:
                first.set()

        first = asyncio.Event()
        task = asyncio.create_task(reads())
        await first.wait()
        await asyncio.sleep(0)  # back to waiting for the second
        await stream.close()
        done, _ = await asyncio.wait([task], timeout=AT_ONCE)
        assert done, "it still reads"
        assert isinstance(task.exception(), Closed)
        await server.await_for(lambda s: s.connections_open == 0)

    with FakeServer(STALLED) as server:
        asyncio.run(main(server))
