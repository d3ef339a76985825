"""Streams behind the gates of a client: a slot, a circuit and tokens, each given back or settled exactly once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import steadycall
from steadycall import AsyncClient, CircuitBreaker, Client, ConcurrencyLimit, Policy, RateLimit, StreamInterrupted
from steadycall._native import Exchange
from steadycall._stream import AsyncStream, Stream, StreamTimeout
from steadycall.testing import Answer, FakeClock, FakeServer

SSE = {"content-type": "text/event-stream"}
HI = 'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
END = (
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], '
    '"usage": {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}}\n\ndata: [DONE]\n\n'
)
GOOD = Answer(headers=SSE, body=HI + END, chunked=True)
BROKEN = Answer(headers=SSE, body=HI, chunked=True)
ENDLESS = Answer(headers=SSE, body=HI * 1000, drip=(len(HI), 0.02), chunked=True)


class Front:
    """One of the two fronts; a behaviour test runs in both."""

    def __init__(self, name: str) -> None:
        self.name = name

    def client(self, server: FakeServer, **options: Any) -> Any:
        policy = Policy(base=0.001, **options.pop("fields", {}))
        return (Client if self.name == "sync" else AsyncClient)(server.url, policy=policy, **options)

    def make(self, client: Any, server: FakeServer) -> Any:
        admission = client._admission(client._front_class)
        url = server.url_for("/v1/chat/completions")
        host = url.split("/")[2]
        body = b'{"model": "m", "messages": []}'

        def exchange() -> Exchange:
            return Exchange("POST", url, [], body, steadycall.Timeout(5.0), None, None)

        return (Stream if self.name == "sync" else AsyncStream)(
            exchange,
            client._bound(),
            url=url,
            host=host,
            timeout=StreamTimeout(),
            admission=admission,
            admit=lambda run, waits: admission.admit(run, host, "/v1/chat/completions", [], body, waits=waits),
        )

    def read(self, client: Any, server: FakeServer, most: int = 1000) -> int:
        """How many events came; at most so many are read."""
        stream = self.make(client, server)
        count = 0
        if self.name == "sync":
            with stream:
                for _ in stream:
                    count += 1
                    if count == most:
                        break
            return count

        async def run() -> None:
            nonlocal count
            async with stream:
                async for _ in stream:
                    count += 1
                    if count == most:
                        break

        asyncio.run(run())
        return count


@pytest.fixture(params=["sync", "async"])
def front(request: pytest.FixtureRequest) -> Front:
    return Front(request.param)


def test_a_slot_is_held_to_the_end_of_a_stream_and_given_back_however_it_ends(front: Front) -> None:
    with FakeServer(GOOD, 503, GOOD, BROKEN, ENDLESS) as server:
        client = front.client(server, concurrency=ConcurrencyLimit(1, queue=0))
        assert front.read(client, server) == 2
        assert client.in_flight == 0
        assert front.read(client, server) == 2  # after a retry
        assert client.in_flight == 0
        with pytest.raises(StreamInterrupted):
            front.read(client, server)
        assert client.in_flight == 0
        assert front.read(client, server, most=1) == 1  # closed by who read it
        assert client.in_flight == 0


def test_a_stream_takes_a_slot_while_it_is_read() -> None:
    front = Front("sync")
    with FakeServer(ENDLESS) as server:
        client = front.client(server, concurrency=ConcurrencyLimit(1, queue=0))
        with front.make(client, server) as stream:
            next(stream)
            assert client.in_flight == 1
            with pytest.raises(steadycall.QueueFull) as found:
                front.read(client, server)
            assert found.value.sent == "no"
            assert len(server.requests) == 1


def test_cancelling_a_stream_gives_its_slot_back() -> None:
    front = Front("async")

    async def run(server: FakeServer, client: Any) -> None:
        async def read() -> None:
            async with front.make(client, server) as stream:
                async for _ in stream:
                    pass

        task = asyncio.create_task(read())
        await server.await_for(lambda s: s.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.in_flight == 0

    with FakeServer(ENDLESS) as server:
        asyncio.run(run(server, front.client(server, concurrency=1)))


def test_interruptions_open_a_circuit_and_an_open_one_lets_no_stream_through(front: Front) -> None:
    with FakeServer(BROKEN) as server:
        client = front.client(server, breaker=CircuitBreaker(failure_threshold=3))
        for _ in range(3):
            with pytest.raises(StreamInterrupted):
                front.read(client, server)
        with pytest.raises(steadycall.CircuitOpen) as found:
            front.read(client, server)
        assert len(server.requests) == 3
        assert (found.value.stop_reason, found.value.sent) == ("breaker_open", "no")
        assert found.value.retry_after is not None


def test_a_stream_that_is_closed_by_who_reads_it_is_a_success_for_the_circuit(front: Front) -> None:
    clock = FakeClock()
    with FakeServer(BROKEN, ENDLESS) as server:
        client = front.client(server, breaker=CircuitBreaker(failure_threshold=1), clock=clock)
        with pytest.raises(StreamInterrupted):
            front.read(client, server)
        assert "open" in client.circuits.values()
        clock.advance(31)
        front.read(client, server, 1)
        assert set(client.circuits.values()) == {"closed"}


def test_the_tokens_of_a_stream_settle_what_was_reserved(front: Front) -> None:
    with FakeServer(GOOD) as server:
        rate = RateLimit(tokens_per_minute=120)
        client = front.client(server, rate=rate, fields={"deadline": 1.0})
        assert [front.read(client, server) for _ in range(2)] == [2, 2]
        # The estimates would let ten more go; 200 tokens were used.
        with pytest.raises(steadycall.DeadlineExceeded) as found:
            front.read(client, server)
        assert found.value.stage == "queue"


def test_retries_of_streams_spend_the_budget_of_the_client(front: Front) -> None:
    with FakeServer(503) as server:
        budget = steadycall.RetryBudget(ratio=0.0, floor_per_second=0.001)
        client = front.client(server, retry_budget=budget, fields={"tries": 50})
        with pytest.raises(steadycall.HTTPStatusError) as found:
            front.read(client, server)
        assert found.value.stop_reason == "retry_budget"
        assert len(server.requests) < 50
