"""Units of work whose calls are made by an SDK on our transport: its errors end them as those of ``call`` do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall import Backoff, FailureKind, Policy, StopReason, UnitGroup
from steadycall.testing import FakeClock, FakeServer, answers

openai = pytest.importorskip("openai")

AT_ONCE = Policy(tries=3, backoff=Backoff.none())
MINUTE = 60.0


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture
def model(server):
    """Asks the server for a chat completion."""
    with openai.OpenAI(api_key="key", base_url=server.url_for("/v1")) as client:
        wrapped = steadycall.wrap(client, AT_ONCE)
        messages = [{"role": "user", "content": "Hi?"}]
        yield lambda: wrapped.chat.completions.create(model="m", messages=messages)


def group(clock=None, **options):
    return UnitGroup(AT_ONCE, 60 * MINUTE, 10 * MINUTE, **{"max_requests_per_unit": 6, "clock": clock, **options})


def text(answer):
    return answer.choices[0].message.content or False


def test_an_sdks_answer_tells_its_tokens(server, model):
    server.answer("*", 503, answers.openai.ok("Hi."))
    saved = []
    result = group().run(call=model, validate=text, save=saved.append)
    assert (result.outcome, result.requests, saved) == ("saved", 2, ["Hi."])
    assert result.usage["total_tokens"] > 0


def test_an_empty_answer_of_an_sdk_is_called_for_once_more(server, model):
    server.answer("*", answers.openai.ok(""))
    result = group().run(call=model, validate=text, save=print)
    assert (result.outcome, result.requests) == ("format_failed", 2)


def test_what_the_transport_below_gave_up_on_is_final_and_says_why(server, model):
    server.answer("*", 503)
    result = group().run(call=model, save=print)
    assert (result.outcome, result.record.stop_reason) == ("transport_exhausted", StopReason.TRIES)
    assert len(server.requests) == 3
    spent = group(max_requests_per_unit=2).run(call=model, save=print)
    assert (spent.outcome, spent.record.stop_reason) == ("budget_exhausted", StopReason.REQUEST_BUDGET)
    assert len(server.requests) == 5


def test_a_rate_limit_of_an_sdk_stops_the_group(server, model):
    server.answer("*", answers.openai.rate_limited(2000))
    one = group()
    result = one.run(call=model, save=print)
    assert (result.outcome, result.record.kind) == ("transport_exhausted", FailureKind.RATE_LIMITED)
    assert one.run(call=model, save=print).outcome == "stopped"
    assert len(server.requests) == 1


def test_a_transport_begins_no_retry_when_nothing_may_begin(server, model):
    clock = FakeClock()

    def late(_request):
        clock.advance(2 * MINUTE)
        return 503

    server.answer("*", late)
    one = group(clock)
    clock.advance(49 * MINUTE)
    result = one.run(call=model, save=print)
    assert (result.outcome, len(server.requests)) == ("deadline", 1)


def test_a_transport_does_not_wait_for_a_retry_that_would_begin_too_late(server):
    clock = FakeClock()
    server.answer("*", answers.openai.rate_limited(120))
    policy = Policy(tries=3, max_wait=600).bind(clock=clock, sleep=clock.sleep)
    one = group(clock)
    clock.advance(49 * MINUTE)
    with openai.OpenAI(api_key="key", base_url=server.url_for("/v1")) as client:
        wrapped = steadycall.wrap(client, policy)
        result = one.run(call=lambda: wrapped.chat.completions.create(model="m", messages=[]), save=print)
    assert (result.outcome, result.requests, len(server.requests)) == ("deadline", 1, 1)
    assert clock.sleeps == []


class Held:
    """An SDK behind a client with one place, which a call of nobody's unit holds until it is told to let go."""

    def __init__(self, server, clock):
        self.let_go = threading.Event()
        server.script("*", [self.answer], then=answers.openai.ok("Hi."))
        self.client = steadycall.Client(server.url, policy=AT_ONCE, concurrency=1, clock=clock)
        self.sdk = steadycall.wrap(openai.OpenAI(api_key="key", base_url=server.url_for("/v1")), self.client)

    def answer(self, _request):
        assert self.let_go.wait(20)
        return answers.openai.ok()

    def ask(self):
        return self.sdk.chat.completions.create(model="m", messages=[])


@pytest.fixture
def queued(server):
    """What becomes of a unit whose SDK waits for that place, while ``meanwhile`` happens."""
    clock = FakeClock()
    held = Held(server, clock)
    one = group(clock)

    def run(meanwhile):
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(held.ask)
            assert server.wait_for(lambda server: len(server.requests) == 1)
            unit = pool.submit(one.run, call=held.ask, save=lambda answer: answer)
            while held.client.waiting < 1:
                threading.Event().wait(0.001)
            meanwhile(clock, one)
            held.let_go.set()
            first.result()
            return unit.result()

    yield run
    held.let_go.set()


def test_the_time_of_an_sdks_call_counts_from_the_place_it_got(queued):
    result = queued(lambda clock, one: clock.advance(40 * MINUTE))  # four times the call limit
    assert (result.outcome, result.requests, result.call_seconds) == ("saved", 1, 0.0)


@pytest.mark.parametrize(
    ("meanwhile", "outcome"),
    [
        (lambda clock, one: clock.advance(50 * MINUTE), "deadline"),
        (lambda clock, one: one.stop(), "stopped"),
    ],
)
def test_a_place_that_an_sdk_gets_too_late_is_given_back(server, queued, meanwhile, outcome):
    result = queued(meanwhile)
    assert (result.outcome, result.requests) == (outcome, 0)
    assert len(server.requests) == 1
