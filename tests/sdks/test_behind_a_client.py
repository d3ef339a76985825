"""SDKs behind the gates of a client: its limits, its breaker and its pauses hold for them too."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from itertools import islice

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


def chat(*parts, done=True):
    """A stream of chat completions: contents, then its end with 100 tokens used."""
    told = [{"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]} for part in parts]
    if done:
        told.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        told.append({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}})
    events = [f"data: {json.dumps(event)}\n\n" for event in told]
    return sse(*events, *["data: [DONE]\n\n"] * done)


def message(*parts, done=True):
    """The same of anthropic."""
    usage = {"input_tokens": 40, "output_tokens": 1}
    started = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    told = [
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}} for part in parts),
    ]
    if done:
        told += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 60}},
            {"type": "message_stop"},
        ]
    return sse(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told))


def sse(*events):
    return Answer(headers={"content-type": "text/event-stream"}, body="".join(events), chunked=True)


MAKERS = {openai: (answers.openai, chat), anthropic: (answers.anthropic, message)}


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def maker(request):
    return request.param


@pytest.fixture
def clock():
    return FakeClock()


class Sdk:
    """openai, or anthropic, blocking or not, behind a client."""

    def __init__(self, name, server, maker=openai, **settings):
        self.sync = name == "sync"
        self.maker = maker
        kind = steadycall.Client if self.sync else steadycall.AsyncClient
        self.client = kind(server.url, **settings)
        prefix = "" if self.sync else "Async"
        if maker is openai:
            sdk = getattr(openai, f"{prefix}OpenAI")(base_url=f"{server.url}/v1", api_key="k")
        else:
            sdk = getattr(anthropic, f"{prefix}Anthropic")(base_url=server.url, api_key="k")
        self.sdk = steadycall.wrap(sdk, self.client)

    @property
    def create(self):
        if self.maker is openai:
            return partial(self.sdk.chat.completions.create, **CHAT)
        return partial(self.sdk.messages.create, max_tokens=9, **CHAT)

    def ask(self, **more):
        if self.sync:
            return self.create(**more)

        async def ask():
            return await self.create(**more)

        return asyncio.run(ask())

    def read(self, most=99, times=1, **more):
        """How much of a stream was read, ``most`` of it, and the streams one after the other."""
        if self.sync:
            for _ in range(times):
                with self.create(stream=True, **more) as stream:
                    count = sum(1 for _ in islice(stream, most))
            return count

        async def read():
            for _ in range(times):
                async with await self.create(stream=True, **more) as stream:
                    count = 0
                    async for _ in stream:
                        count += 1
                        if count == most:
                            break
            return count

        return asyncio.run(read())


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


# What the end of a stream says


def half_open(name, server, maker, clock):
    """An SDK whose circuit was opened by a failure, and lets a probe through now."""
    breaker = CircuitBreaker(failure_threshold=1)
    sdk = Sdk(name, server, maker, breaker=breaker, policy=Policy(tries=1), clock=clock)
    with pytest.raises(maker.APIStatusError):
        sdk.ask()
    clock.advance(31)
    return sdk


def test_a_stream_that_was_read_to_its_end_closes_the_circuit_and_keeps_its_connection(name, maker, clock):
    known, stream = MAKERS[maker]
    with FakeServer(known.server_error(), stream("Hi")) as server:
        sdk = half_open(name, server, maker, clock)
        sdk.read(times=3)
        assert sdk.client.circuit("m").state == "closed"
        assert server.connections == 1


def test_a_stream_that_its_reader_leaves_closes_the_circuit(name, maker, clock):
    known, stream = MAKERS[maker]
    endless = stream(*"abcdefghij" * 50, done=False).replace(drip=(200, 0.02))
    with FakeServer(known.server_error(), endless) as server:
        sdk = half_open(name, server, maker, clock)
        sdk.read(most=1)
        assert sdk.client.circuit("m").state == "closed"


def test_the_tokens_of_a_stream_settle_what_was_reserved(name, maker):
    ends = []
    with FakeServer(MAKERS[maker][1]("Hi")) as server:
        # Its estimate would let many more go; 100 tokens are used by each.
        rate = RateLimit(tokens_per_minute=120)
        sdk = Sdk(name, server, maker, rate=rate, on_end=ends.append, policy=Policy(tries=1, deadline=1.0))
        sdk.read(times=2)
        with pytest.raises(maker.APIConnectionError) as refused:
            sdk.read()
        assert len(server.requests) == 2
    assert isinstance(refused.value.__cause__, steadycall.DeadlineExceeded)
    assert refused.value.__cause__.stage == "queue"
    assert [end.outcome for end in ends] == ["answered", "answered", "deadline"]
    assert ends[0].usage == {"input_tokens": 40, "output_tokens": 60, "total_tokens": 100}


def test_a_stream_that_ends_in_the_middle_is_an_error_and_a_failure(name, maker):
    ends = []
    with FakeServer(MAKERS[maker][1]("Hi", done=False)) as server:
        breaker = CircuitBreaker(failure_threshold=1)
        sdk = Sdk(name, server, maker, breaker=breaker, on_end=ends.append)
        with pytest.raises((steadycall.ReadError, openai.APIConnectionError)) as cut:
            sdk.read()
        error = cut.value if maker is anthropic else cut.value.__cause__
        assert isinstance(error, steadycall.ReadError)
        assert (type(error).__name__, error.sent) == ("RemoteProtocolError", "maybe")
        assert "ends in the middle" in str(error)
        assert sdk.client.circuit("m").state == "open"
        assert len(server.requests) == 1
    assert [(end.outcome, end.attempts[0].delivered) for end in ends] == [("stream_started", False)]


def test_an_error_after_content_is_the_sdks_own_and_a_failure(name, maker):
    busy = {
        openai: 'data: {"error": {"code": "server_is_overloaded", "message": "Overloaded"}}\n\n',
        anthropic: 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
    }[maker]  # fmt: skip
    ends = []
    part = MAKERS[maker][1]("Hi", done=False)
    with FakeServer(part.replace(body=part.body + busy)) as server:
        sdk = Sdk(name, server, maker, breaker=CircuitBreaker(failure_threshold=1), on_end=ends.append)
        with pytest.raises(maker.APIError, match="verloaded") as told:
            sdk.read()
        assert not isinstance(told.value, maker.APIConnectionError)
        assert sdk.client.circuit("m").state == "open"
    assert [end.outcome for end in ends] == ["stream_started"]


def test_the_end_of_one_choice_is_not_that_of_two(name):
    part = chat("Hi")
    with FakeServer(part.replace(body=part.body.replace("data: [DONE]\n\n", ""))) as server:
        sdk = Sdk(name, server)
        sdk.read()
        with pytest.raises(openai.APIConnectionError) as cut:
            sdk.read(n=2)
        assert isinstance(cut.value.__cause__, steadycall.ReadError)


# Who watches


def test_every_step_of_an_sdks_request_is_told(name, maker, clock):
    known, stream = MAKERS[maker]
    seen = []
    with FakeServer(known.server_error(), stream("Hi"), known.bad_request()) as server:
        rate = RateLimit(requests_per_minute=600, burst=1)
        sdk = Sdk(name, server, maker, rate=rate, on_event=seen.append, sleep=clock.sleep, clock=clock, rng=1)
        sdk.read()
        with pytest.raises(maker.BadRequestError):
            sdk.ask()
    first, second = ["attempt_started", "attempt_ended"], ["attempt_started", "first_delta", "attempt_ended"]
    waited = ["waiting", "admitted"]
    names = [event.name for event in seen]
    assert names[:3] == [*first, "waiting"]
    assert names[-5:] == [*waited, *first, "gave_up"]
    assert [name for name in names[3:-5] if name not in waited] == second
    assert {(event.host, event.model) for event in seen} == {(server.url.removeprefix("http://"), "m")}
    assert [event.number for event in seen if event.name == "attempt_started"] == [1, 2, 1]
    assert seen[-1].stop_reason == "not_retryable"
    assert [event.attempt.status for event in seen if event.name == "attempt_ended"] == [500, 200, 400]
