"""SDKs behind the gates of a client: its limits, its breaker and its pauses hold for them too."""

from __future__ import annotations

import asyncio
import threading

import anthropic
import openai
import pytest

import steadycall
from steadycall import CircuitBreaker, ConcurrencyLimit, Policy, RateLimit
from steadycall.testing import Answer, FakeClock, FakeServer, answers

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}
STREAM = Answer(
    headers={"content-type": "text/event-stream"},
    body='data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n' + "data: [DONE]\n\n",
)


@pytest.fixture
def clock():
    return FakeClock()


class Sdk:
    """openai, blocking or not, behind a client."""

    def __init__(self, name, server, **settings):
        self.sync = name == "sync"
        kind = steadycall.Client if self.sync else steadycall.AsyncClient
        self.client = kind(server.url, **settings)
        sdk = openai.OpenAI if self.sync else openai.AsyncOpenAI
        self.sdk = steadycall.wrap(sdk(base_url=f"{server.url}/v1", api_key="k"), self.client)

    def ask(self, **more):
        if self.sync:
            return self.sdk.chat.completions.create(**CHAT, **more)

        async def ask():
            return await self.sdk.chat.completions.create(**CHAT, **more)

        return asyncio.run(ask())


@pytest.fixture(params=["sync", "async"])
def name(request):
    return request.param


def test_an_sdk_waits_for_the_rate_of_its_client(name, clock):
    with FakeServer(answers.openai.ok()) as server:
        rate = RateLimit(requests_per_minute=60, burst=1)
        sdk = Sdk(name, server, rate=rate, sleep=clock.sleep, clock=clock)
        for _ in range(3):
            sdk.ask()
    assert clock.sleeps == pytest.approx([1.0, 1.0])


def test_an_open_breaker_refuses_an_sdk_with_an_error_of_both(name, clock):
    with FakeServer(answers.openai.server_error()) as server:
        sdk = Sdk(
            name, server, breaker=CircuitBreaker(failure_threshold=1), policy=Policy(tries=1), clock=clock,
        )  # fmt: skip
        with pytest.raises(openai.InternalServerError):
            sdk.ask()
        with pytest.raises(openai.APIConnectionError) as refused:
            sdk.ask()
        assert len(server.requests) == 1
    assert isinstance(refused.value.__cause__, steadycall.CircuitOpen)
    assert refused.value.__cause__.retry_after == pytest.approx(30.0)


def test_a_429_of_the_client_pauses_the_sdk_with_the_same_key(name, clock):
    with FakeServer(answers.openai.rate_limited(20), answers.openai.ok()) as server:
        sdk = Sdk(name, server, policy=Policy(tries=1), sleep=clock.sleep, clock=clock)
        with pytest.raises(openai.RateLimitError):
            sdk.ask()
        sdk.ask()
    assert clock.sleeps == pytest.approx([20.0])


def test_a_hinted_retry_waits_once(name, clock):
    with FakeServer(answers.openai.rate_limited(20), answers.openai.ok()) as server:
        Sdk(name, server, policy=Policy(), sleep=clock.sleep, clock=clock).ask()
    assert clock.sleeps == pytest.approx([20.0])


def test_the_retry_budget_of_the_client_ends_the_sdks_retries(name, clock):
    budget = steadycall.RetryBudget(ratio=0.0, floor_per_second=0.001, burst=1)
    with FakeServer(answers.openai.server_error()) as server:
        with pytest.raises(openai.InternalServerError) as ended:
            Sdk(name, server, retry_budget=budget, sleep=clock.sleep, clock=clock, rng=1).ask()
        assert len(server.requests) == 2
    assert ended.value.response.headers["x-steadycall-stop"] == "retry_budget"


def test_a_stream_holds_its_slot_until_it_was_read(name):
    with FakeServer(STREAM) as server:
        sdk = Sdk(name, server, concurrency=ConcurrencyLimit(1, queue=0))
        if sdk.sync:
            stream = sdk.ask(stream=True)
            assert sdk.client.in_flight == 1
            with pytest.raises(openai.APIConnectionError) as refused:
                sdk.ask()
            assert isinstance(refused.value.__cause__, steadycall.QueueFull)
            assert [chunk.choices[0].delta.content for chunk in stream] == ["Hi"]
        else:

            async def read():
                stream = await sdk.sdk.chat.completions.create(stream=True, **CHAT)
                assert sdk.client.in_flight == 1
                return [chunk async for chunk in stream]

            assert len(asyncio.run(read())) == 1
        assert sdk.client.in_flight == 0


def test_a_stream_that_is_closed_early_frees_its_slot(name):
    with FakeServer(STREAM) as server:
        sdk = Sdk(name, server, concurrency=ConcurrencyLimit(1))
        if sdk.sync:
            sdk.ask(stream=True).close()
        else:

            async def leave():
                await (await sdk.sdk.chat.completions.create(stream=True, **CHAT)).close()

            asyncio.run(leave())
        assert sdk.client.in_flight == 0


def test_a_cancelled_request_of_an_sdk_leaves_the_queue():
    async def main(server):
        client = steadycall.AsyncClient(server.url, concurrency=ConcurrencyLimit(1))
        sdk = steadycall.wrap(anthropic.AsyncAnthropic(base_url=server.url, api_key="k"), client)
        asks = [asyncio.create_task(sdk.messages.create(max_tokens=9, **CHAT)) for _ in range(3)]
        await server.await_for(lambda s: s.in_flight == 1 and client.waiting == 2)
        for ask in asks:
            ask.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
        # The background thread lets go of them in a moment.
        await server.await_for(lambda _: (client.in_flight, client.waiting) == (0, 0))

    with FakeServer(answers.anthropic.ok().replace(never=True)) as server:
        asyncio.run(main(server))


def test_threads_of_an_sdk_wait_for_a_slot_in_turn():
    with FakeServer(answers.openai.ok().replace(delay=0.05)) as server:
        sdk = Sdk("sync", server, concurrency=ConcurrencyLimit(1))
        threads = [threading.Thread(target=sdk.ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 4
        assert (sdk.client.in_flight, sdk.client.waiting) == (0, 0)
