"""What holds for every group and every script of failures: requests, outcomes, saves, and when nothing may begin."""

from __future__ import annotations

import asyncio
import io
import urllib.error
from collections import Counter
from email.message import Message

from hypothesis import given, settings
from hypothesis import strategies as st

import steadycall
from steadycall import Backoff, FailureKind, Policy, StopReason, UnitGroup, UnitOutcome, scope
from steadycall.testing import FakeClock

law = settings(max_examples=60)  # each example plays several units


class Gone(Exception):
    """The target was deleted."""


def http(status, hint=None):
    headers = Message()
    if hint is not None:
        headers["Retry-After"] = str(hint)
    return urllib.error.HTTPError("http://llm.example", status, "", headers, io.BytesIO(b""))


# ---- scripts -----------------------------------------------------------------------------------------------------

SECONDS = st.integers(0, 40).map(lambda quarters: quarters / 4)  # exact in binary, so that sums are too
ANSWERS = ["good", "good", "bad", "bad", "reset", "503", "429", "400", "limited", "mine", "gone", "stop"]
# Seconds it takes, what comes of it, and whether a layer below makes the request.
STEPS = st.lists(st.tuples(SECONDS, st.sampled_from(ANSWERS), st.booleans()), max_size=12)
UNITS = st.fixed_dictionaries(
    {
        "script": STEPS,
        "alive": st.sampled_from(["yes", "yes", "no", "fails", "gone", "stops"]),
        "save": st.sampled_from(["well", "well", "fails", "gone"]),
    }
)
POLICIES = st.builds(
    Policy,
    tries=st.integers(1, 4),
    validation_tries=st.one_of(st.none(), st.integers(1, 3)),
    max_wait=SECONDS,
    attempt_timeout=st.one_of(st.none(), SECONDS.filter(bool)),
    backoff=st.builds(Backoff.fixed, SECONDS),
)
STOP_ON = st.sets(st.sampled_from([*FailureKind, StopReason.TRIES, StopReason.HINT_TOO_LONG, StopReason.DEADLINE]))


@st.composite
def groups(draw):
    call_limit = draw(SECONDS.filter(bool))
    return {
        "policy": draw(POLICIES),
        "call_limit": call_limit,
        "runtime_limit": call_limit + draw(SECONDS.filter(bool)) * 2,
        "max_requests_per_unit": draw(st.one_of(st.none(), st.integers(1, 6))),
        "stop_on": draw(STOP_ON),
    }


class Player:
    """Plays the scripts of units one after the other, by either front, and writes down what happened."""

    def __init__(self, terms, front):
        self.clock = FakeClock()
        self.told = []
        self.group = UnitGroup(
            **terms, gone=Gone, clock=self.clock, sleep=self.clock.sleep, on_unit=self.told.append, rng=1
        )
        self.not_after = terms["runtime_limit"] - terms["call_limit"]
        self.call_limit = terms["call_limit"]
        self.below = Policy(tries=1).bind(clock=self.clock)
        self.front = front
        self.units = []

    def play(self, unit):
        seen = {"runs": [], "saves": 0, "alive": None, "result": None, "raised": None}
        script = iter(unit["script"])

        def step(seconds, outcome):
            assert self.clock.now() < self.not_after
            assert not self.group.stopped
            assert 0 < steadycall.current_attempt().timeout <= self.call_limit
            seen["runs"].append(outcome)
            self.clock.advance(seconds)
            return self.outcome(outcome)

        def call():
            seconds, outcome, below = next(script, (0.0, "good", False))
            return self.below.call(step, seconds, outcome) if below else step(seconds, outcome)

        def alive():
            assert not self.group.stopped
            seen["alive"] = unit["alive"]
            if unit["alive"] == "fails":
                raise ConnectionError
            if unit["alive"] == "gone":
                raise KeyError from Gone()
            if unit["alive"] == "stops":
                self.group.stop()
            return unit["alive"] != "no"

        def save(answer):
            assert not self.group.stopped
            assert answer == "good"
            assert seen["alive"] == "yes"
            seen["saves"] += 1
            if unit["save"] == "fails":
                raise http(429)
            if unit["save"] == "gone":
                raise Gone
            return "row"

        hooks = {"call": call, "save": save, "validate": lambda answer: answer == "good", "alive": alive}
        try:
            seen["result"] = self.run(**hooks)
        except Gone as error:
            seen["raised"] = error
        seen["record"] = self.told[-1]
        self.units.append(seen)

    def run(self, *, call, **hooks):
        if self.front == "run":
            return self.group.run(call=call, **hooks)

        async def acall():
            return call()

        acall.__qualname__ = call.__qualname__  # told as the cause
        return asyncio.run(self.group.arun(call=acall, **hooks))

    def outcome(self, name):
        if name == "stop":
            self.group.stop()
        if name in ("good", "bad", "stop"):
            return "bad" if name == "bad" else "good"
        faults = {
            "reset": ConnectionResetError,
            "503": lambda: http(503),
            "429": lambda: http(429),
            "limited": lambda: http(429, 3600),
            "400": lambda: http(400),
            "mine": TypeError,
            "gone": Gone,
        }
        raise faults[name]()


def played(terms, units, front):
    player = Player(terms, front)
    for unit in units:
        player.play(unit)
    return player


CALLED = {"format_failed", "transport_exhausted", "permanent"}


@law
@given(terms=groups(), units=st.lists(UNITS, min_size=1, max_size=4))
def test_whatever_happens_a_unit_ends_once_and_within_what_it_may(terms, units):
    player = played(terms, units, "run")
    assert len(player.told) == len(units)
    policy, most = terms["policy"], terms["max_requests_per_unit"]
    rounds = policy.validation_tries or 2
    for seen in player.units:
        record, runs, result = seen["record"], seen["runs"], seen["result"]
        assert record.requests == len(runs)
        assert most is None or record.requests <= most
        assert record.requests <= policy.tries * rounds
        assert record.call_seconds >= 0
        assert (result is None) == (seen["raised"] is not None)
        assert (record.cause is None) == (record.outcome == "saved")
        if result is None:
            assert record.outcome == UnitOutcome.TARGET_GONE
            continue
        assert result.record == record
        assert seen["saves"] == (record.outcome == "saved" or (result.answer is not None and seen["alive"] == "yes"))
        assert (result.answer == "good") == (record.outcome in ("saved", "save_failed"))
        assert (result.saved == "row") == (record.outcome == "saved")
        if record.outcome in CALLED:
            assert result.error is not None
            assert record.kind is not None
            assert runs


@law
@given(terms=groups(), units=st.lists(UNITS, min_size=1, max_size=3))
def test_a_transport_that_gave_up_is_never_started_again(terms, units):
    tries, rounds = terms["policy"].tries, terms["policy"].validation_tries or 2
    for seen in played(terms, units, "run").units:
        *_, last_round = [[]] if not seen["runs"] else split(seen["runs"])
        assert all(len(one) <= tries for one in split(seen["runs"]))
        assert len(split(seen["runs"])) <= rounds
        assert not {"400", "mine", "gone", "limited"} & set(seen["runs"][:-1])
        if seen["record"].outcome == "format_failed":
            assert last_round[-1] == "bad"
            assert len(split(seen["runs"])) == rounds


def split(runs):
    """The runs, call by call: each ends with an answer in the wrong form, but for the last."""
    calls = [[]]
    for run in runs:
        if calls[-1][-1:] == ["bad"]:
            calls.append([])
        calls[-1].append(run)
    return calls


@law
@given(terms=groups(), units=st.lists(UNITS, min_size=1, max_size=3))
def test_both_fronts_do_the_same(terms, units):
    # A plain function is not cut by a timer, and the coroutine function of the script never waits.
    sync, awaited = played(terms, units, "run"), played(terms, units, "arun")
    assert sync.told == awaited.told
    assert sync.clock.sleeps == awaited.clock.sleeps
    assert [seen["runs"] for seen in sync.units] == [seen["runs"] for seen in awaited.units]


@law
@given(terms=groups(), units=st.lists(UNITS, min_size=2, max_size=6), requests=st.integers(1, 12))
def test_a_scope_around_all_units_is_never_overdrawn(terms, units, requests):
    with scope(requests=requests) as account:
        player = played(terms, units, "run")
        spent = sum(record.requests for record in player.told)
        assert account.left() == requests - spent


@law
@given(terms=groups(), units=st.lists(UNITS, min_size=2, max_size=6))
def test_once_stopped_every_unit_ends_without_a_request(terms, units):
    player = Player(terms, "run")
    for unit in units:
        before = player.group.stopped
        player.play(unit)
        if before:
            assert player.units[-1]["runs"] == []
            assert player.told[-1].outcome == "stopped"
            assert player.told[-1].requests == 0
    assert Counter(record.outcome for record in player.told).total() == len(units)
