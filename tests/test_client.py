"""A client's calls: what is sent, what comes back, what its gates let through. Both fronts, over a real server."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from datetime import timedelta
from functools import partial

import pytest

import steadycall
from steadycall import (
    CircuitBreaker,
    ConcurrencyLimit,
    Policy,
    RateLimit,
    Reject,
    RetryBudget,
    StopReason,
    TokenBudget,
)
from steadycall.testing import Answer, FakeClock, FakeServer, answers

openai, gemini = answers.openai, answers.gemini
PATH = "/v1/chat/completions"
PAYLOAD = {"model": "a-model", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def clock():
    return FakeClock()


def steady(clock, **more):
    """Settings under which no real second passes."""
    return {"sleep": clock.sleep, "clock": clock, "rng": 7, **more}


# What a reply tells


def test_a_reply_holds_the_answer_and_what_it_took(clients, clock):
    with FakeServer(gemini.overloaded(), Answer(json=openai.ok().json, headers={"x-request-id": "r-1"})) as server:
        client = clients.make(server.url, **steady(clock))
        reply = client.call(PATH, PAYLOAD)
    assert reply.json["choices"][0]["message"]["content"] == "Hello."
    assert (reply.status, reply.request_id, reply.requests) == (200, "r-1", 2)
    assert reply.headers["X-Request-ID"] == "r-1"
    assert reply.text.encode() == reply.content
    assert [attempt.status for attempt in reply.attempts] == [503, 200]
    assert reply.attempts[-1].request_id == "r-1"
    assert reply.usage == reply.total_usage == {"input_tokens": 8, "output_tokens": 4, "total_tokens": 12}
    assert reply.elapsed == pytest.approx(sum(clock.sleeps))
    assert reply.route.base_url == server.url
    assert "a-model" not in repr(reply)


def test_a_reply_pickles_and_copies(clients):
    with FakeServer(openai.ok()) as server:
        reply = clients.make(server.url).call(PATH, PAYLOAD)
    for other in (pickle.loads(pickle.dumps(reply)), copy.deepcopy(reply)):
        assert (other.json, other.content, other.usage) == (reply.json, reply.content, reply.usage)
        assert other.attempts == reply.attempts


def test_paths_are_appended_to_the_base_url_and_headers_are_laid_over_each_other(clients):
    with FakeServer(openai.ok()) as server:
        client = clients.make(f"{server.url}/v1/?api-version=3", headers={"x-one": "client", "x-two": "client"})
        client.call("/chat/completions", PAYLOAD, headers={"x-two": "call"}, idempotency_key="k-1")
        request = server.requests[0]
    assert request.path == PATH
    assert request.query == "api-version=3"
    assert (request.headers["x-one"], request.headers["x-two"]) == ("client", "call")
    assert request.headers["idempotency-key"] == "k-1"
    assert request.headers["content-type"] == "application/json"


def test_a_headers_callable_is_asked_before_each_attempt(clients, clock):
    keys = iter(["first", "second"])
    with FakeServer(openai.server_error(), openai.ok()) as server:
        client = clients.make(server.url, headers=lambda: {"authorization": next(keys)}, **steady(clock))
        client.call(PATH, PAYLOAD, headers={"x-mine": "1"})
        sent = [(request.headers["authorization"], request.headers["x-mine"]) for request in server.requests]
    assert sent == [("first", "1"), ("second", "1")]


def test_get_sends_no_body_and_takes_any_2xx_as_it_is(clients):
    failed = {"id": "job-1", "status": "failed", "error": {"message": "long past", "code": "server_error"}}
    with FakeServer(Answer(json=failed), Answer(204), Answer(body="plain")) as server:
        client = clients.make(server.url)
        assert client.run("get", "/v1/batches/job-1").json == failed
        assert client.run("request", "DELETE", "/v1/files/f").json is None
        assert client.run("get", "/v1/text").text == "plain"
        first = server.requests[0]
    assert (first.method, first.body, first.headers.get("content-type")) == ("GET", b"", None)
    assert server.requests[1].method == "DELETE"


def test_a_get_follows_redirects_within_its_origin_and_a_post_is_never_turned_into_one(clients):
    with FakeServer() as elsewhere, FakeServer() as server:
        server.answer("/a", Answer(302, headers={"location": "/b"}))
        server.answer("/b", Answer(json={"at": "b"}))
        server.answer("/c", Answer(307, headers={"location": f"{elsewhere.url}/b"}))
        client = clients.make(server.url, headers={"authorization": "Bearer k"})
        assert client.run("get", "/a").json == {"at": "b"}
        with pytest.raises(steadycall.HTTPStatusError) as refused:
            client.call("/a", PAYLOAD)
        assert refused.value.code == 302
        with pytest.raises(steadycall.HTTPStatusError):
            client.run("get", "/c")
        assert elsewhere.requests == []


# Validation


def test_an_answer_that_fails_its_validation_is_asked_for_again_and_its_tokens_are_counted(clients, clock):
    verdicts = iter([False, {"taken": "instead"}])
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, **steady(clock))
        reply = client.call(PATH, PAYLOAD, validate=lambda _: next(verdicts))
    assert reply.json == {"taken": "instead"}
    assert reply.usage["total_tokens"] == 12
    assert reply.total_usage["total_tokens"] == 24
    assert [attempt.kind for attempt in reply.attempts] == ["validation", None]


def test_a_validator_that_never_accepts_ends_in_a_response_error_with_its_own_as_the_cause(clients, clock):
    def validate(_answer):
        raise ValueError("no list in it")

    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, policy=Policy(tries=2), **steady(clock))
        with pytest.raises(steadycall.ResponseError) as ended:
            client.call(PATH, PAYLOAD, validate=validate)
    assert ended.value.kind == "validation"
    assert str(ended.value.__cause__) == "no list in it"
    assert len(ended.value.attempts) == 2


def test_reject_ends_the_call_as_itself(clients):
    with FakeServer(openai.ok()) as server:
        with pytest.raises(Reject) as ended:
            clients.make(server.url).call(PATH, PAYLOAD, validate=lambda _: Reject("never mind"))
        assert len(server.requests) == 1
    assert "Stopped after 1 attempt" in ended.value.__notes__[0]


def test_an_answer_validated_after_the_deadline_is_late_and_kept_on_the_error(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, **steady(clock))
        with pytest.raises(steadycall.DeadlineExceeded) as late:
            client.call(PATH, PAYLOAD, deadline=3, validate=lambda _: clock.advance(5))
    assert late.value.late_result["choices"]
    assert late.value.stage == "attempt"


# The gates


def test_the_second_call_of_two_a_minute_waits_for_its_turn(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, rate=RateLimit(requests_per_minute=60, burst=1), **steady(clock))
        for _ in range(3):
            client.call(PATH, PAYLOAD)
    assert clock.sleeps == pytest.approx([1.0, 1.0])


def test_a_wait_for_the_rate_that_the_deadline_cannot_meet_is_refused_at_once_with_the_wait(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, rate=RateLimit(requests_per_minute=6, burst=1), **steady(clock))
        client.call(PATH, PAYLOAD)
        with pytest.raises(steadycall.DeadlineExceeded) as refused:
            client.call(PATH, PAYLOAD, deadline=4)
        assert len(server.requests) == 1
    assert (refused.value.stage, refused.value.sent) == ("queue", "no")
    assert refused.value.retry_after == pytest.approx(10.0)
    assert clock.sleeps == []


def test_partitions_models_and_keys_have_limits_of_their_own(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, rate=RateLimit(requests_per_minute=1, burst=1), **steady(clock))
        client.call(PATH, PAYLOAD)
        client.call(PATH, PAYLOAD, partition="another")
        client.call(PATH, PAYLOAD | {"model": "another"})
        client.call(PATH, PAYLOAD, headers={"authorization": "another"})
        client.call("/v1beta/models/gemini-x:generateContent", {"contents": []})
    assert clock.sleeps == []


def test_tokens_are_reserved_by_estimate_and_settled_by_usage(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, rate=RateLimit(tokens_per_minute=120, burst=120), **steady(clock))
        client.call(PATH, PAYLOAD, tokens=120)  # the bucket is empty, and 108 of it come back
        client.call(PATH, PAYLOAD, tokens=108)
        assert clock.sleeps == []
        client.call(PATH, PAYLOAD, tokens=110)  # 96 of it came back: 14 are missing
    assert clock.sleeps == pytest.approx([7.0])


def test_a_429_pauses_everybody_who_shares_its_bucket(clients, clock):
    with FakeServer(openai.rate_limited(20), openai.ok()) as server:
        client = clients.make(server.url, policy=Policy(tries=1), **steady(clock))
        with pytest.raises(steadycall.HTTPStatusError):
            client.call(PATH, PAYLOAD)
        with pytest.raises(steadycall.DeadlineExceeded) as refused:
            client.call(PATH, PAYLOAD, deadline=5)
        assert refused.value.retry_after == pytest.approx(20.0)
        assert refused.value.kind == "rate_limited"
        client.call(PATH, PAYLOAD)
        assert len(server.requests) == 2
    assert clock.sleeps == pytest.approx([20.0])


def test_a_pause_longer_than_max_wait_is_refused(clients, clock):
    with FakeServer(openai.rate_limited(500), openai.ok()) as server:
        client = clients.make(server.url, policy=Policy(tries=1, max_wait=60), **steady(clock))
        with pytest.raises(steadycall.HTTPStatusError):
            client.call(PATH, PAYLOAD)
        with pytest.raises(steadycall.Refused) as refused:
            client.call(PATH, PAYLOAD)
        assert len(server.requests) == 1
    assert refused.value.stop_reason == StopReason.HINT_TOO_LONG
    assert refused.value.retry_after == pytest.approx(500.0)


def test_a_hinted_retry_waits_once_and_not_at_the_gate_again(clients, clock):
    with FakeServer(openai.rate_limited(20), openai.ok()) as server:
        clients.make(server.url, policy=Policy(), **steady(clock)).call(PATH, PAYLOAD)
    assert clock.sleeps == pytest.approx([20.0])


def test_a_fake_sleep_without_a_clock_moves_the_gates_on_too(clients):
    waits = []
    with FakeServer(openai.rate_limited(20), openai.ok()) as server:
        client = clients.make(server.url, policy=Policy(), sleep=waits.append)
        client.call(PATH, PAYLOAD)
        client.call(PATH, PAYLOAD)
    assert waits == [20.0]


def test_the_token_budget_of_a_day_refuses_what_does_not_fit(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, token_budget=TokenBudget(per_day=20), **steady(clock))
        client.call(PATH, PAYLOAD, tokens=12)
        with pytest.raises(steadycall.Refused) as refused:
            client.call(PATH, PAYLOAD, tokens=12)
        assert len(server.requests) == 1
    assert "token budget" in str(refused.value)
    assert refused.value.retry_after > 0


def test_an_oversized_request_is_refused_where_the_limit_says_so(clients, clock):
    with FakeServer(openai.ok()) as server:
        rate = RateLimit(tokens_per_minute=100, oversized="refuse")
        client = clients.make(server.url, rate=rate, **steady(clock))
        with pytest.raises(steadycall.Refused, match="more tokens than the rate limit"):
            client.call(PATH, PAYLOAD, tokens=101)
        assert server.requests == []


def test_the_retry_budget_ends_retries_of_a_client_whose_provider_is_down(clients, clock):
    budget = RetryBudget(ratio=0.0, floor_per_second=0.001, burst=2)
    with FakeServer(openai.server_error()) as server:
        client = clients.make(server.url, retry_budget=budget, policy=Policy(tries=5), **steady(clock))
        with pytest.raises(steadycall.HTTPStatusError) as ended:
            client.call(PATH, PAYLOAD)
        assert len(server.requests) == 3
    assert ended.value.stop_reason == StopReason.RETRY_BUDGET


# The breaker


def test_the_breaker_opens_refuses_probes_and_closes(clients, clock):
    failing = [openai.server_error()] * 3
    with FakeServer(*failing, openai.ok()) as server:
        breaker = CircuitBreaker(failure_threshold=3, recovery_timeout=30)
        client = clients.make(server.url, breaker=breaker, policy=Policy(tries=1), **steady(clock))
        for _ in range(3):
            with pytest.raises(steadycall.HTTPStatusError):
                client.call(PATH, PAYLOAD)
        circuit = client.client.circuit("a-model")
        assert circuit.state == "open"
        clock.advance(10)
        with pytest.raises(steadycall.CircuitOpen) as refused:
            client.call(PATH, PAYLOAD)
        assert refused.value.retry_after == pytest.approx(20.0)
        assert (refused.value.sent, refused.value.attempts) == ("no", ())
        assert len(server.requests) == 3
        clock.advance(20)
        client.call(PATH, PAYLOAD)
        assert circuit.state == "closed"
        assert client.client.circuits[server.url.removeprefix("http://"), "a-model"] == "closed"


@pytest.mark.parametrize(
    ("answer", "count"), [(openai.rate_limited(), 6), (openai.bad_request(), 6)], ids=["429", "400"]
)
def test_limits_and_bad_requests_open_no_circuit(clients, clock, answer, count):
    with FakeServer(answer) as server:
        client = clients.make(
            server.url, breaker=CircuitBreaker(failure_threshold=2), policy=Policy(tries=1), **steady(clock)
        )
        for number in range(count):
            with pytest.raises(steadycall.HTTPStatusError):
                client.call(PATH, PAYLOAD, partition=str(number))
        assert client.client.circuit("a-model").state == "closed"


def test_a_bad_request_between_failures_is_neither_success_nor_failure(clients, clock):
    script = [openai.server_error(), openai.server_error(), openai.bad_request(), openai.server_error()]
    with FakeServer(*script) as server:
        client = clients.make(
            server.url, breaker=CircuitBreaker(failure_threshold=3), policy=Policy(tries=1), **steady(clock)
        )
        for _ in script:
            with pytest.raises(steadycall.HTTPStatusError):
                client.call(PATH, PAYLOAD)
        assert client.client.circuit("a-model").state == "open"


def test_a_retry_that_the_open_breaker_would_refuse_raises_the_real_failure(clients, clock):
    with FakeServer(openai.server_error()) as server:
        breaker = CircuitBreaker(failure_threshold=2, recovery_timeout=600)
        client = clients.make(server.url, breaker=breaker, policy=Policy(tries=5), **steady(clock))
        with pytest.raises(steadycall.HTTPStatusError) as ended:
            client.call(PATH, PAYLOAD)
        assert len(server.requests) == 2
    assert ended.value.stop_reason == StopReason.BREAKER_OPEN


def test_a_circuit_can_be_forced_open_closed_and_released(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, breaker=CircuitBreaker(), **steady(clock))
        circuit = client.client.circuit("a-model")
        circuit.force_open()
        assert circuit.state == "forced_open"
        with pytest.raises(steadycall.CircuitOpen):
            client.call(PATH, PAYLOAD)
        circuit.force_closed()
        client.call(PATH, PAYLOAD)
        circuit.release()
        assert circuit.state == "closed"


def test_a_page_of_html_is_no_success_though_its_status_is_200(clients, clock):
    page = Answer(body="<html>hello</html>", headers={"content-type": "text/html"})
    with FakeServer(openai.server_error(), page, openai.server_error()) as server:
        breaker = CircuitBreaker(failure_threshold=2)
        client = clients.make(server.url, breaker=breaker, policy=Policy(tries=1), **steady(clock))
        for _ in range(3):
            with pytest.raises(steadycall.CallError):
                client.call(PATH, PAYLOAD)
        assert client.client.circuit("a-model").state == "open"


# Options and life


def test_with_options_shares_the_gates(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, rate=RateLimit(requests_per_minute=60, burst=1), **steady(clock))
        client.call(PATH, PAYLOAD)
        client.with_options(timeout=3, headers={"x-other": "1"}).call(PATH, PAYLOAD)
        assert server.requests[1].headers["x-other"] == "1"
    assert clock.sleeps == pytest.approx([1.0])
    with pytest.raises(steadycall.ConfigError, match="rate must be left out"):
        client.with_options(rate=None)


def test_a_closed_client_refuses_further_calls(clients):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url)
        client.run("close" if clients.name == "sync" else "aclose")
        with pytest.raises(steadycall.Closed) as refused:
            client.call(PATH, PAYLOAD)
        assert isinstance(refused.value, RuntimeError)
        assert server.requests == []


def test_a_policy_of_a_client_may_be_bound_and_judge_by_itself(clients, clock):
    seen = []

    def retry_if(failure, error):
        seen.append((failure.status, type(error).__name__))
        return False if failure.status == 503 else None

    with FakeServer(openai.server_error(), gemini.overloaded()) as server:
        bound = Policy(retry_if=retry_if).bind(sleep=clock.sleep, clock=clock, rng=1)
        with pytest.raises(steadycall.HTTPStatusError) as ended:
            clients.make(server.url, policy=bound).call(PATH, PAYLOAD)
    assert ended.value.code == 503
    assert seen == [(500, "HTTPStatusError"), (503, "HTTPStatusError")]


def test_observers_are_told_every_step(clients, clock):
    events, ends = [], []
    with FakeServer(openai.server_error(), openai.ok()) as server:
        client = clients.make(
            server.url, on_event=events.append, on_end=ends.append,
            rate=RateLimit(requests_per_minute=60, burst=1), **steady(clock),
        )  # fmt: skip
        client.call(PATH, PAYLOAD)
    names = [event.name for event in events]
    assert names == [
        *("attempt_started", "attempt_ended", "waiting"),
        *("waiting", "admitted", "attempt_started", "attempt_ended"),
    ]
    assert {event.model for event in events} == {"a-model"}
    assert events[2].wait == clock.sleeps[0]
    assert events[3].until is not None
    assert events[4].wait == pytest.approx(clock.sleeps[1])
    assert ends[0].outcome == "answered"
    assert ends[0].usage["total_tokens"] == 12


def test_a_scope_gets_a_request_back_that_a_gate_refused(clients, clock):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url, breaker=CircuitBreaker(), **steady(clock))
        client.client.circuit("a-model").force_open()
        with steadycall.scope(requests=1) as within:
            with pytest.raises(steadycall.CircuitOpen):
                client.call(PATH, PAYLOAD)
            assert within.left() == 1


def test_threads_share_the_slots_of_one_client():
    with FakeServer(openai.ok().replace(delay=0.05)) as server:
        client = steadycall.Client(server.url, concurrency=ConcurrencyLimit(2))
        most = []

        def call():
            client.call(PATH, PAYLOAD)
            most.append(client.in_flight)

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        server.wait_for(lambda s: s.in_flight == 2)
        assert client.waiting > 0
        for thread in threads:
            thread.join()
        assert (client.in_flight, client.waiting) == (0, 0)
    assert max(most) <= 2


def test_a_deadline_that_passes_in_the_queue_says_so(clients):
    with FakeServer(openai.ok().replace(never=True)) as server:
        client = clients.make(server.url, concurrency=ConcurrencyLimit(1, queue=1))

        def block():
            with pytest.raises(steadycall.DeadlineExceeded):
                client.call(PATH, PAYLOAD, deadline=1.0)

        blocker = threading.Thread(target=block)
        blocker.start()
        server.wait_for(lambda s: s.in_flight == 1)
        with pytest.raises(steadycall.DeadlineExceeded) as late:
            client.call(PATH, PAYLOAD, deadline=0.1)
        assert (late.value.stage, late.value.sent) == ("queue", "no")
        assert client.client.waiting == 0
        blocker.join()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"concurrency": "8"}, "concurrency"),
        ({"rate": 5}, "rate"),
        ({"breaker": True}, "breaker"),
        ({"retry_budget": 0.2}, "retry_budget"),
        ({"policy": "fast"}, "policy"),
        ({"fallback": ["https://b.test"]}, "fallback"),
        ({"headers": 5}, "headers"),
        ({"timeout": -1}, "timeout"),
        ({"on_event": 5}, "on_event"),
        ({"base_url": "ftp://a.test"}, "base_url"),
        ({"base_url": "https://user:pass@a.test"}, "base_url"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, field):
    with pytest.raises(steadycall.ConfigError) as refused:
        steadycall.Client(**settings)
    assert refused.value.field == field
    assert "pass" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        (lambda: ConcurrencyLimit(0), "max"),
        (lambda: ConcurrencyLimit(5, queue=-1), "queue"),
        (lambda: ConcurrencyLimit(5, adaptive_from=6), "adaptive_from"),
        (RateLimit, "requests_per_minute"),
        (lambda: RateLimit(requests_per_minute=0), "requests_per_minute"),
        (lambda: RateLimit(tokens_per_minute=5, oversized="maybe"), "oversized"),
        (lambda: TokenBudget(0), "per_day"),
        (lambda: TokenBudget(5, "stop"), "on_spent"),
        (lambda: CircuitBreaker(0), "failure_threshold"),
        (lambda: CircuitBreaker(failure_ratio=1.5), "failure_ratio"),
        (lambda: CircuitBreaker(3, failure_ratio=0.5), "breaker"),
        (lambda: RetryBudget(ratio=2), "ratio"),
        (lambda: RetryBudget(burst=-1), "burst"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(limit, field):
    with pytest.raises(steadycall.ConfigError) as refused:
        limit()
    assert refused.value.field == field


@pytest.mark.parametrize(
    "limit",
    [ConcurrencyLimit(5), RateLimit(60, 1000), TokenBudget(9), CircuitBreaker(failure_ratio=0.5), RetryBudget()],
    ids=repr,
)
def test_limits_are_values(limit):
    assert pickle.loads(pickle.dumps(limit)) == limit == copy.deepcopy(limit)
    assert hash(limit) == hash(copy.copy(limit))


def test_no_path_leads_a_key_to_another_origin(clients):
    client = clients.make("https://a.test/v1", headers={"authorization": "Bearer k"})
    with pytest.raises(steadycall.ConfigError, match="path"):
        client.call("https://b.test/v1", PAYLOAD)
    with pytest.raises(steadycall.ConfigError, match="base_url"):
        clients.make(None).call("/v1", PAYLOAD)


# What a caller's own functions may do


def test_a_coroutine_function_cannot_validate_for_a_client_that_blocks():
    async def validate(_answer):
        return False

    with FakeServer(openai.ok()) as server:
        client = steadycall.Client(server.url)
        with pytest.raises(steadycall.ConfigError, match="validate"):
            client.call(PATH, PAYLOAD, validate=validate)
        assert server.requests == []
        with pytest.raises(steadycall.ConfigError, match="validate"):
            client.call(PATH, PAYLOAD, validate=partial(lambda give, answer: give(answer), validate))


@pytest.mark.parametrize("what", ["headers", "validate"])
def test_a_coroutine_that_hangs_is_cut_by_the_deadline(what):
    async def slow(*_):
        await asyncio.sleep(30)

    async def main():
        with FakeServer(openai.ok()) as server:
            client = steadycall.AsyncClient(server.url, headers=slow if what == "headers" else None)
            with pytest.raises(steadycall.DeadlineExceeded) as late:
                await client.call(PATH, PAYLOAD, deadline=0.1, validate=slow if what == "validate" else None)
            assert len(server.requests) == (what == "validate")
            assert (client.in_flight, client.waiting) == (None, 0)
            return late.value

    late = asyncio.run(main())
    assert late.stage == ("before_attempt" if what == "headers" else "attempt")
    assert late.sent == ("no" if what == "headers" else "maybe")


def test_closing_a_client_closes_those_made_of_it_and_the_sdks_behind_it(clients):
    with FakeServer(openai.ok()) as server:
        client = clients.make(server.url)
        other = client.with_options(timeout=3)
        stream = client.client.stream(PATH, PAYLOAD)
        client.run("close" if clients.name == "sync" else "aclose")
        with pytest.raises(steadycall.Closed):
            other.call(PATH, PAYLOAD)
        with pytest.raises(steadycall.Closed):
            asyncio.run(stream.collect()) if clients.name == "async" else stream.collect()
        assert server.requests == []


SICK = {
    "gemini": {"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}},
    "openrouter": {"error": {"code": 502, "message": "Provider returned error"}},
    "anthropic": {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}},
}


@pytest.mark.parametrize("body", SICK.values(), ids=SICK)
def test_a_broken_server_that_answers_inside_a_200_opens_the_circuit(clients, clock, body):
    with FakeServer(Answer(json=body)) as server:
        client = clients.make(
            server.url, policy=Policy(tries=1), breaker=CircuitBreaker(failure_threshold=2), **steady(clock)
        )
        for _ in range(2):
            with pytest.raises(steadycall.CallError):
                client.call(PATH, PAYLOAD)
        assert client.client.circuit("a-model").state == "open"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: RateLimit(5, oversized=None), "oversized"),
        (lambda: TokenBudget(5, None), "on_spent"),
        (lambda: RetryBudget(ratio=timedelta(seconds=1)), "ratio"),
        (lambda: CircuitBreaker(failure_ratio=timedelta(seconds=1)), "failure_ratio"),
        (lambda: CircuitBreaker(5, window="x"), "window"),
        (lambda: steadycall.Client("http://a.test", proxy="socks5://x"), "proxy"),
        (lambda: steadycall.Client("http://a.test", ca_bundle=5), "ca_bundle"),
        (lambda: steadycall.Client("http://a.test", breaker=CircuitBreaker()).circuit(5), "model"),
        (lambda: steadycall.Client("http://a.test").request(3, "/x"), "method"),
        (lambda: steadycall.Client("http://a.test").call("/x", {}, tokens=-1), "tokens"),
        (lambda: steadycall.Client("http://a.test").call("/x", {}, partition=5), "partition"),
        (lambda: steadycall.Client(None, fallback=[steadycall.Route("http://b.test")]), "fallback"),
    ],
)
def test_an_argument_at_its_edge_is_named(make, field):
    with pytest.raises(steadycall.ConfigError) as refused:
        make()
    assert refused.value.field == field
