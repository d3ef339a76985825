"""Fallback routes: when the next one is tried, what is sent there, and what a call may still cost."""

from __future__ import annotations

import pytest

import steadycall
from steadycall import CircuitBreaker, Policy, Route, StopReason
from steadycall.testing import Answer, FakeClock, FakeServer, answers

openai, gemini = answers.openai, answers.gemini
PATH = "/v1/chat/completions"
PAYLOAD = {"model": "a-model", "messages": []}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def servers():
    with FakeServer() as first, FakeServer() as second:
        yield first, second


def client_of(clients, clock, first, second, **more):
    settings = {"policy": Policy(tries=2), "sleep": clock.sleep, "clock": clock, "rng": 3, **more}
    route = settings.pop("route", None) or Route(second.url, headers={"authorization": "second"})
    return clients.make(first.url, headers={"authorization": "first"}, fallback=[route], **settings)


MENDABLE = {
    "a server that fails to the end": openai.server_error(),
    "a limit": openai.rate_limited(),
    "a wait that is too long": openai.rate_limited(500),
    "a spent quota": openai.insufficient_quota(),
    "a lost connection": Answer(reset="before"),
    "an answer cut short": openai.ok().replace(truncate=20),
}

NOT_MENDABLE = {
    "a bad request": openai.bad_request(),
    "a bad key": openai.bad_key(),
    "a request too large": openai.request_too_large(),
}


@pytest.mark.parametrize("answer", MENDABLE.values(), ids=MENDABLE)
def test_the_next_route_is_tried_for_what_another_provider_can_mend(clients, clock, servers, answer):
    first, second = servers
    first.answer("*", answer)
    second.answer("*", openai.ok("From the second."))
    reply = client_of(clients, clock, first, second).call(PATH, PAYLOAD, idempotency_key="k")
    assert reply.json["choices"][0]["message"]["content"] == "From the second."
    assert reply.route.base_url == second.url
    assert [attempt.number for attempt in reply.attempts] == list(range(1, len(reply.attempts) + 1))
    assert len(second.requests) == 1
    assert second.requests[0].headers["idempotency-key"] == "k"


@pytest.mark.parametrize("answer", NOT_MENDABLE.values(), ids=NOT_MENDABLE)
def test_no_route_is_tried_for_a_fault_of_the_request(clients, clock, servers, answer):
    first, second = servers
    first.answer("*", answer)
    second.answer("*", openai.ok())
    with pytest.raises(steadycall.HTTPStatusError) as ended:
        client_of(clients, clock, first, second).call(PATH, PAYLOAD)
    assert ended.value.stop_reason == StopReason.NOT_RETRYABLE
    assert second.requests == []


def test_a_key_goes_to_its_own_provider_only(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    second.answer("*", openai.ok())
    client_of(clients, clock, first, second, policy=Policy(tries=1)).call(PATH, PAYLOAD, headers={"x-secret": "first"})
    assert first.requests[0].headers["authorization"] == "first"
    assert second.requests[0].headers["authorization"] == "second"
    assert "x-secret" not in second.requests[0].headers


def test_a_transform_and_a_path_fit_the_request_to_the_other_provider(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    second.answer("*", gemini.ok())

    def transform(payload):
        return {"contents": payload["messages"]}

    route = Route(second.url, transform=transform, path="/v1beta/models/gemini-x:generateContent")
    client_of(clients, clock, first, second, route=route).call(PATH, PAYLOAD)
    assert second.requests[0].path == "/v1beta/models/gemini-x:generateContent"
    assert second.requests[0].json() == {"contents": []}
    assert PAYLOAD == {"model": "a-model", "messages": []}


def test_each_route_has_its_tries_and_all_share_the_requests(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    second.answer("*", gemini.overloaded())
    with pytest.raises(steadycall.HTTPStatusError) as ended:
        client_of(clients, clock, first, second).call(PATH, PAYLOAD)
    assert (len(first.requests), len(second.requests)) == (2, 2)
    assert (ended.value.code, len(ended.value.attempts)) == (503, 4)
    with pytest.raises(steadycall.HTTPStatusError) as ended:
        client_of(clients, clock, first, second, policy=Policy(tries=2, max_requests=3)).call(PATH, PAYLOAD)
    assert (len(ended.value.attempts), ended.value.stop_reason) == (3, StopReason.REQUEST_BUDGET)


def test_all_routes_share_the_deadline(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.rate_limited(20))
    second.answer("*", openai.rate_limited(20))
    with pytest.raises(steadycall.DeadlineExceeded) as ended:
        client_of(clients, clock, first, second).call(PATH, PAYLOAD, deadline=5)
    assert ended.value.retry_after == 20.0
    assert clock.sleeps == []
    assert (len(first.requests), len(second.requests)) == (1, 1)


def test_an_open_circuit_leads_to_the_next_route_without_a_request(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    second.answer("*", openai.ok())
    client = client_of(
        clients, clock, first, second, policy=Policy(tries=1), breaker=CircuitBreaker(failure_threshold=1)
    )
    for _ in range(3):
        assert client.call(PATH, PAYLOAD).route.base_url == second.url
    assert len(first.requests) == 1


def test_a_pause_that_the_deadline_cannot_meet_leads_to_the_next_route(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.rate_limited(50))
    second.answer("*", openai.ok())
    client = client_of(clients, clock, first, second)
    client.call(PATH, PAYLOAD, deadline=5)
    client.call(PATH, PAYLOAD, deadline=5)
    assert (len(first.requests), len(second.requests)) == (1, 2)


def test_the_error_is_of_the_route_that_failed_last(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    second.answer("*", openai.bad_key())
    with pytest.raises(steadycall.HTTPStatusError) as ended:
        client_of(clients, clock, first, second).call(PATH, PAYLOAD)
    assert ended.value.code == 401
    assert second.url.removeprefix("http://") in str(ended.value)
    assert [attempt.status for attempt in ended.value.attempts] == [500, 500, 401]


def test_a_failure_of_the_first_route_is_told_with_its_own_host(clients, clock, servers):
    first, second = servers
    first.answer("*", openai.server_error())
    client = client_of(
        clients, clock, first, second, policy=Policy(tries=1), breaker=CircuitBreaker(failure_threshold=5)
    )
    client.client.circuit("a-model", host=second.url.removeprefix("http://")).force_open()
    with pytest.raises(steadycall.HTTPStatusError) as ended:
        client.call(PATH, PAYLOAD)
    assert first.url.removeprefix("http://") in str(ended.value)
    assert ended.value.stop_reason == StopReason.BREAKER_OPEN


def test_a_route_at_the_clients_own_origin_has_its_headers(clients, clock, servers):
    first, _ = servers
    first.answer("/v1/a", openai.server_error())
    first.answer("/v1/b", openai.ok())
    route = Route(first.url, path="/v1/b")
    client_of(clients, clock, first, first, route=route).call("/v1/a", PAYLOAD)
    assert first.requests[-1].headers["authorization"] == "first"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Route("b.test"), "base_url"),
        (lambda: Route("https://b.test", transform=5), "transform"),
        (lambda: Route("https://b.test", path=5), "path"),
        (lambda: steadycall.Client("https://a.test", fallback=Route(None)), "fallback"),
    ],
)
def test_a_route_that_makes_no_sense_is_named(make, field):
    with pytest.raises(steadycall.ConfigError) as refused:
        make()
    assert refused.value.field == field


def test_a_route_shows_no_key():
    assert repr(Route("https://b.test?key=secret", headers={"authorization": "secret"})) == "Route('https://b.test')"


def test_a_path_that_no_route_takes_is_refused_before_anything_is_sent(clients, clock, servers):
    first, second = servers
    first.answer("*", 500)
    with pytest.raises(steadycall.ConfigError, match="path"):
        client_of(clients, clock, first, second).call(f"{first.url}/x", PAYLOAD)
    assert first.requests == []


@pytest.mark.parametrize(
    ("transform", "error"),
    [(lambda _: 1 / 0, ZeroDivisionError), (lambda payload: payload.clear(), steadycall.ConfigError)],
    ids=["raises", "forgets its return"],
)
def test_a_transform_that_fails_is_told_with_the_real_failure_behind_it(clients, clock, servers, transform, error):
    first, second = servers
    first.answer("*", 500)
    ends = []
    route = Route(second.url, transform=transform)
    with pytest.raises(error) as told:
        client_of(clients, clock, first, second, route=route, on_end=ends.append).call(PATH, dict(PAYLOAD))
    assert isinstance(told.value.__cause__, steadycall.HTTPStatusError)
    assert [end.outcome for end in ends] == ["tries"]
    assert second.requests == []


def test_another_account_at_the_same_provider_is_a_route_too(clients, clock, servers):
    first, _ = servers
    first.answer("*", openai.insufficient_quota(), openai.ok())
    route = Route(first.url, headers={"authorization": "another"})
    client_of(clients, clock, first, first, route=route).call(PATH, PAYLOAD)
    assert [request.headers["authorization"] for request in first.requests] == ["first", "another"]
