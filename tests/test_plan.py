"""What a policy may cost at the worst: the figures of the design, refusals at start-up, and nested layers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadycall
from steadycall import Backoff, BudgetError, ConfigError, Policy, layers
from steadycall.testing import FakeClock

FIXED = Policy(tries=3, attempt_timeout=15, backoff=Backoff.fixed(2), max_wait=2)


def test_one_chain_takes_49_s_and_two_take_98_s():
    assert FIXED.worst_case() == FIXED.worst_case(chains=1)
    assert (FIXED.worst_case().seconds, FIXED.worst_case().requests) == (49.0, 3)
    assert (FIXED.worst_case(chains=2).seconds, FIXED.worst_case(chains=2).requests) == (98.0, 6)


def test_within_120_s_two_chains_allow_an_attempt_timeout_of_18_67_s():
    most = FIXED.max_attempt_timeout(within=120, chains=2)
    assert round(most, 2) == 18.67
    FIXED.replace(attempt_timeout=most - 1e-6).require_within(120, chains=2)


def test_the_exponential_path_alone_takes_93_s_for_two_chains():
    grown = FIXED.replace(backoff=Backoff.exponential(0.5, 1.0))
    assert grown.worst_case(chains=2, hints=False).seconds == 93.0
    assert grown.worst_case(chains=2).seconds == 98.0  # a server may ask for max_wait


def test_what_does_not_fit_is_refused_with_the_numbers():
    with pytest.raises(BudgetError) as caught:
        FIXED.require_within(97, chains=2)
    assert str(caught.value) == (
        "policy must be done within 97 s at the worst, got one that may take 98 s for 2 calls one after the other "
        "(an attempt_timeout of at most 14.83 s would fit)"
    )
    FIXED.require_within(98, chains=2)
    with pytest.raises(BudgetError, match=r"fewer tries or a lower max_wait would fit"):
        FIXED.require_within(3)
    with pytest.raises(BudgetError, match="longer than the waits"):
        FIXED.max_attempt_timeout(within=4)


def test_an_unbounded_policy_says_so_instead_of_inventing_a_number():
    assert Policy().worst_case().seconds is None
    assert Policy().worst_case().requests == 5
    with pytest.raises(BudgetError, match="neither is set"):
        Policy().require_within(1e9)


def test_hints_count_in_require_within_always():
    patient = FIXED.replace(max_wait=60)
    assert patient.worst_case(hints=False).seconds == 49.0
    with pytest.raises(BudgetError):
        patient.require_within(49)


def test_a_deadline_bounds_it_and_validation_tries_multiply():
    assert FIXED.replace(deadline=20).worst_case(chains=2).seconds == 40.0
    assert FIXED.replace(validation_tries=2).worst_case().requests == 6
    assert FIXED.replace(validation_tries=2, max_requests=4).worst_case().requests == 4


def test_nested_layers_multiply():
    nested = layers(transport=3, validation=2, queue=2)
    assert nested.max_requests == 12
    assert nested.tries == {"transport": 3, "validation": 2, "queue": 2}
    assert str(nested) == "3 transport x 2 validation x 2 queue = 12 requests"
    assert layers().max_requests == 1
    with pytest.raises(ConfigError, match="queue must be a whole number of at least 1, got 0"):
        layers(transport=3, queue=0)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2", None], ids=repr)
def test_chains_are_counted_from_one(wrong):
    for ask in (FIXED.worst_case, lambda chains: FIXED.require_within(9, chains=chains)):
        with pytest.raises(ConfigError) as caught:
            ask(wrong)
        assert caught.value.field == "chains"


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "9", None], ids=repr)
def test_within_is_a_time(wrong):
    for ask in (FIXED.require_within, FIXED.max_attempt_timeout):
        with pytest.raises(ConfigError) as caught:
            ask(wrong)
        assert caught.value.field == "within"


@given(
    tries=st.integers(1, 5),
    timeout=st.floats(0.1, 20),
    wait=st.floats(0, 5),
    hints=st.lists(st.one_of(st.none(), st.floats(0.01, 10)), max_size=12),
    validation_tries=st.one_of(st.none(), st.integers(1, 3)),
)
def test_no_call_takes_longer_or_costs_more_than_its_worst_case(tries, timeout, wait, hints, validation_tries):
    clock, runs = FakeClock(), []
    policy = Policy(
        tries=tries,
        attempt_timeout=timeout,
        backoff=Backoff.fixed(wait),
        max_wait=10,
        validation_tries=validation_tries,
        hint_jitter=0.5,
    )
    script = iter(hints)

    def work():
        runs.append(1)
        clock.advance(timeout)
        hint = next(script, None)
        if hint is not None:
            pairs = (("retry-after", str(hint)),)
            raise steadycall.HTTPStatusError(url="http://x/", code=429, msg="", why="w", header_pairs=pairs)
        return "bad"

    with pytest.raises((steadycall.ResponseError, steadycall.HTTPStatusError)):
        policy.bind(clock=clock, sleep=clock.sleep, rng=1, validate=lambda _: False).call(work)
    worst = policy.worst_case()
    assert worst.seconds is not None
    assert clock.now() <= worst.seconds * (1 + 1e-9)
    assert len(runs) <= worst.requests
