"""The current SDKs over our transport: how many requests each scenario costs, and what the caller is given."""

from __future__ import annotations

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer, FakeSleep

from .over_transport import SDKS, Sdk, done, sse, status_of

POLICY = steadycall.Policy(tries=3, base=0.5)

pytestmark = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)


def raised(server: FakeServer, work, policy=POLICY, **options) -> Exception:
    with pytest.raises(Exception) as found:
        done(work, server.url, policy, **options)
    assert not isinstance(found.value, (TypeError, AttributeError)), repr(found.value)
    return found.value


def package(error: BaseException) -> set[str]:
    return {cls.__module__.partition(".")[0] for cls in type(error).__mro__}


def test_a_503_and_then_an_answer_costs_two_requests(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.overloaded, sdk.provider.ok) as server:
        assert done(sdk.ask, server.url, POLICY) == "Hello."
        assert len(server.requests) == 2
        assert len(fake_sleep) == 1 and fake_sleep[0] < 0.5


def test_the_wait_a_429_asks_for_is_waited_exactly(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.rate_limited, sdk.provider.ok) as server:
        assert done(sdk.ask, server.url, POLICY) == "Hello."
        assert len(server.requests) == 2
        assert fake_sleep == [2.0]


def test_spent_money_or_quota_costs_one_request(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.no_money) as server:
        error = raised(server, sdk.ask)
        assert (len(server.requests), fake_sleep) == (1, [])
        assert status_of(error) == 429 and "steadycall" not in package(error)


def test_a_bad_key_costs_one_request_and_raises_the_sdks_own_error(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.bad_key) as server:
        error = raised(server, sdk.ask)
        assert (len(server.requests), fake_sleep) == (1, [])
        assert status_of(error) == sdk.provider.bad_key.status and "steadycall" not in package(error)


def test_exhausted_tries_cost_as_many_requests_and_raise_the_sdks_own_error(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.overloaded) as server:
        error = raised(server, sdk.ask)
        assert (len(server.requests), len(fake_sleep)) == (3, 2)
        assert status_of(error) == sdk.provider.overloaded.status and "steadycall" not in package(error)


def test_an_error_inside_a_200_is_tried_again_and_raised_under_its_own_status(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.hidden, sdk.provider.ok) as server:
        assert done(sdk.ask, server.url, POLICY) == "Hello."
        assert len(server.requests) == 2
    with FakeServer(sdk.provider.hidden) as server:
        error = raised(server, sdk.ask)
        assert len(server.requests) == 3
        assert status_of(error) == sdk.provider.shown
        response = getattr(error, "response", None) or error.raw_response
        assert response.headers["x-steadycall-status"] == "200"
        assert response.headers["x-should-retry"] == "false"


def test_a_reset_is_tried_again(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(Answer(reset="before"), sdk.provider.ok.replace(truncate=20), sdk.provider.ok) as server:
        assert done(sdk.ask, server.url, POLICY) == "Hello."
        assert len(server.requests) == 3


def test_resets_to_the_end_cost_as_many_requests_as_there_are_tries(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(Answer(reset="before")) as server:
        error = raised(server, sdk.ask)
        assert len(server.requests) == 3
        failure = steadycall.classify_exception(error)
        assert (failure.kind, failure.sent) == ("call", "maybe")


def test_a_deadline_ends_it_at_once(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.rate_limited) as server:
        error = raised(server, sdk.ask, POLICY.replace(deadline=1.5))
        assert (len(server.requests), fake_sleep) == (1, [])
        chain = [error, error.__cause__]
        assert any(isinstance(one, steadycall.DeadlineExceeded) for one in chain), chain


def test_a_stream_passes_through(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sse(*sdk.provider.events).replace(chunked=True, drip=(7, 0))) as server:
        assert done(sdk.stream, server.url, POLICY) == "Hello."
        assert len(server.requests) == 1


def test_an_overload_at_the_start_of_a_stream_is_tried_again_before_the_sdk_sees_it(
    sdk: Sdk, fake_sleep: FakeSleep
) -> None:
    with FakeServer(
        sse(sdk.provider.failing),
        sse(*sdk.provider.opening, sdk.provider.failing),
        sse(*sdk.provider.events),
    ) as server:
        assert done(sdk.stream, server.url, POLICY) == "Hello."
        assert (len(server.requests), len(fake_sleep)) == (3, 2)


def test_overloads_of_streams_to_the_end_raise_the_sdks_own_error(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sse(*sdk.provider.opening, sdk.provider.failing)) as server:
        error = raised(server, sdk.stream)
        assert len(server.requests) == 3
        assert status_of(error) == sdk.provider.shown


def test_a_stream_that_ends_before_its_first_content_is_tried_again(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(
        sse(), sse(*sdk.provider.opening), sse(*sdk.provider.events).replace(truncate=30), sse(*sdk.provider.events)
    ) as server:
        assert done(sdk.stream, server.url, POLICY.replace(tries=4)) == "Hello."
        assert len(server.requests) == 4


def test_an_error_status_before_a_stream_is_tried_again(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.overloaded, sse(*sdk.provider.events)) as server:
        assert done(sdk.stream, server.url, POLICY) == "Hello."
        assert len(server.requests) == 2


def test_an_outer_layer_does_not_try_again_what_the_transport_gave_up_on(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    for answer in (sdk.provider.overloaded, Answer(reset="before")):
        with FakeServer(answer) as server:
            outer = steadycall.Policy(tries=4)
            with pytest.raises(Exception):  # noqa: B017 - whichever the SDK has
                outer.call(done, sdk.ask, server.url, POLICY)
            assert len(server.requests) == 3


def test_an_outer_layer_that_retries_the_exhausted_judges_the_answer_by_itself(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.overloaded) as server:
        with pytest.raises(Exception):  # noqa: B017 - whichever the SDK has
            steadycall.Policy(tries=2, retry_exhausted=True).call(done, sdk.ask, server.url, POLICY)
        assert len(server.requests) == 6


def test_a_scope_bounds_the_requests_of_an_sdk(sdk: Sdk, fake_sleep: FakeSleep) -> None:
    with FakeServer(sdk.provider.overloaded) as server:
        with steadycall.scope(requests=2):
            raised(server, sdk.ask)
        assert len(server.requests) == 2
