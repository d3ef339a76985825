"""Units of work whose calls go through a client: what stands at its gates costs the call no time and no request."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall import Backoff, CircuitBreaker, FailureKind, Policy, RateLimit, StopReason, UnitGroup
from steadycall._scope import around, unit_around
from steadycall.testing import Answer, FakeClock, FakeServer, answers

MINUTE = 60.0
PATH = "/v1/chat/completions"
AT_ONCE = Policy(tries=3, backoff=Backoff.none(), max_wait=60 * MINUTE)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture
def saved():
    return []


STREAM = Answer(
    headers={"content-type": "text/event-stream"},
    body='data: {"choices": [{"index": 0, "delta": {"content": "Hi."}}]}\n\ndata: [DONE]\n\n',
)


def streamed_or_not(request):
    return STREAM if request.json().get("stream") else answers.openai.ok("Hi.")


def text(reply):
    return reply.json["choices"][0]["message"]["content"]


class Held:
    """A client with one place, which a call of nobody's unit holds until it is told to let go."""

    def __init__(self, server, clock):
        self.let_go = threading.Event()
        self.server = server
        server.script(PATH, [self.answer], then=streamed_or_not)
        self.client = steadycall.Client(server.url, policy=AT_ONCE, concurrency=1, clock=clock)
        self.aclient = steadycall.AsyncClient(server.url, policy=AT_ONCE, concurrency=1, clock=clock)

    def answer(self, _request):
        assert self.let_go.wait(20)
        return answers.openai.ok()


@pytest.fixture
def held(server, clock):
    held = Held(server, clock)
    yield held
    held.let_go.set()


@pytest.fixture
def hour(clock):
    return UnitGroup(AT_ONCE, 60 * MINUTE, 10 * MINUTE, 6, clock=clock, sleep=clock.sleep)


@pytest.fixture(params=["run", "arun", "stream"])
def queued(request, held, hour, saved):
    """What becomes of a unit that waits for the one place of a client, while ``meanwhile`` happens."""

    def streamed():
        return held.client.stream(PATH, {"stream": True}).collect()

    def run(meanwhile):
        asked = {"call": lambda: held.client.call(PATH, {}), "validate": text}
        if request.param == "stream":
            asked = {"call": streamed, "validate": lambda collected: collected.text}
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(held.client.call, PATH, {})
            assert held.server.wait_for(lambda server: len(server.requests) == 1)
            unit = pool.submit(hour.run, save=saved.append, **asked)
            until(lambda: held.client.waiting == 1)
            meanwhile()
            held.let_go.set()
            first.result()
            return unit.result()

    async def arun(meanwhile):
        first = asyncio.create_task(held.aclient.call(PATH, {}))
        assert await held.server.await_for(lambda server: len(server.requests) == 1)
        unit = asyncio.create_task(
            hour.arun(call=lambda: held.aclient.call(PATH, {}), validate=text, save=saved.append)
        )
        while held.aclient.waiting < 1:
            await asyncio.sleep(0)
        meanwhile()
        held.let_go.set()
        await first
        return await unit

    return run if request.param != "arun" else lambda meanwhile: asyncio.run(arun(meanwhile))


def until(true):
    for _ in range(5000):
        if true():
            return
        threading.Event().wait(0.001)
    raise AssertionError("in vain")


def test_the_time_of_a_call_counts_from_the_place_it_got(queued, clock, saved):
    result = queued(lambda: clock.advance(40 * MINUTE))  # four times the call limit
    assert (result.outcome, result.requests, result.call_seconds) == ("saved", 1, 0.0)
    assert saved == ["Hi."]


def test_a_place_that_comes_from_minute_50_on_is_given_back(queued, clock, server, held):
    result = queued(lambda: clock.advance(50 * MINUTE))
    assert (result.outcome, result.requests, result.call_seconds) == ("deadline", 0, 0.0)
    assert len(server.requests) == 1
    assert not held.client.in_flight
    assert not held.aclient.in_flight


def test_a_place_that_comes_after_the_group_was_stopped_is_given_back(queued, hour, server, held):
    result = queued(hour.stop)
    assert (result.outcome, result.requests) == ("stopped", 0)
    assert len(server.requests) == 1
    assert held.client.in_flight == held.aclient.in_flight == 0


def test_a_call_is_cut_at_its_limit_counted_from_its_place(held, server, saved):
    """Real time: the queue takes four times the call limit, and the answer would take longer still."""
    server.script(PATH, [held.answer], then=Answer(json={}, delay=30))
    group = UnitGroup(AT_ONCE, 60, 0.05)

    async def main():
        async with steadycall.AsyncClient(server.url, concurrency=1) as client:
            first = asyncio.create_task(client.call(PATH, {}))
            assert await server.await_for(lambda server: len(server.requests) == 1)
            unit = asyncio.create_task(group.arun(call=lambda: client.call(PATH, {}), save=saved.append))
            await asyncio.sleep(0.2)
            assert not unit.done()
            held.let_go.set()
            await first
            return await unit

    result = asyncio.run(main())
    assert (result.outcome, len(server.requests)) == ("deadline", 2)
    assert result.call_seconds < 0.2
    assert saved == []


def test_who_leaves_the_gates_without_a_place_has_the_time_of_his_call_go_on(held, server, clock, hour, saved):
    async def call():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await held.aclient.call(PATH, {})
        unit = unit_around(around())
        clock.advance(4 * MINUTE)
        return unit.remaining() / MINUTE

    async def main():
        first = asyncio.create_task(held.aclient.call(PATH, {}))
        assert await server.await_for(lambda server: len(server.requests) == 1)
        result = await hour.arun(call=call, save=saved.append)
        held.let_go.set()
        await first
        return result

    assert asyncio.run(main()).outcome == "saved"
    assert saved == [6.0]


def test_a_wait_for_the_rate_that_ends_from_minute_50_on_is_refused_at_once(server, clock, hour, saved):
    server.answer(PATH, answers.openai.ok("Hi."))
    waits = []
    rate = RateLimit(requests_per_minute=1, burst=1)
    client = steadycall.Client(server.url, policy=AT_ONCE, rate=rate, clock=clock, sleep=waits.append)
    clock.advance(50 * MINUTE - 30)
    client.call(PATH, {})
    result = hour.run(call=lambda: client.call(PATH, {}), save=saved.append)
    assert (result.outcome, result.error.stage, result.requests) == ("deadline", "queue", 0)
    assert waits == []


def test_an_open_breaker_costs_a_unit_no_request_and_stops_the_group(server, clock, hour, saved):
    server.answer(PATH, 500)
    breaker = CircuitBreaker(1)
    client = steadycall.Client(server.url, policy=AT_ONCE.replace(tries=1), breaker=breaker, clock=clock)
    with pytest.raises(steadycall.HTTPStatusError):
        client.call(PATH, {})
    result = hour.run(call=lambda: client.call(PATH, {}), save=saved.append)
    assert (result.outcome, result.record.stop_reason) == ("transport_exhausted", StopReason.BREAKER_OPEN)
    assert result.requests == 0
    assert hour.stopped
    assert len(server.requests) == 1


def test_a_retry_of_a_client_that_would_begin_from_minute_50_on_is_not_waited_for(server, clock, hour, saved):
    server.answer(PATH, answers.openai.rate_limited(120))
    client = steadycall.Client(server.url, policy=AT_ONCE, clock=clock, sleep=clock.sleep)
    clock.advance(49 * MINUTE)
    result = hour.run(call=lambda: client.call(PATH, {}), save=saved.append)
    assert (result.outcome, result.error.stage, result.requests) == ("deadline", "retry_delay", 1)
    assert result.record.kind == FailureKind.RATE_LIMITED
    assert clock.sleeps == []


def test_the_tokens_of_a_reply_are_told(server, clock, hour, saved):
    server.answer(PATH, answers.openai.ok("Hi."))
    client = steadycall.Client(server.url, policy=AT_ONCE, clock=clock)
    result = hour.run(call=lambda: client.call(PATH, {}), validate=text, save=saved.append)
    assert saved == ["Hi."]
    one = result.usage["total_tokens"]
    verdicts = iter([False, True])
    checked = {"validate": lambda answer: next(verdicts)}
    result = hour.run(call=lambda: client.call(PATH, {}, **checked), validate=text, save=saved.append)
    assert result.usage["total_tokens"] == 2 * one > 0  # the one that was not good enough was billed too
