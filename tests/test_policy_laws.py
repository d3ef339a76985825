"""What holds for every policy and every script: waits, deadlines, counts, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import io
import math
import urllib.error
import weakref
from email.message import Message

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadycall
from steadycall import Backoff, Policy, retry, scope
from steadycall.testing import FakeClock, ScriptedOperation

law = settings(max_examples=50)  # each example plays a whole script, some of them on an event loop of its own

# ---- scripts -----------------------------------------------------------------------------------------------------

SECONDS = st.integers(0, 40).map(lambda quarters: quarters / 4)  # exact in binary, so that sums are too
SOME_SECONDS = SECONDS.filter(bool)
BACKOFFS = st.one_of(
    st.builds(Backoff.fixed, SECONDS),
    st.builds(Backoff.full_jitter, SECONDS, SECONDS),
    st.builds(Backoff.exponential, SECONDS, SECONDS, st.sampled_from(["none", "equal", "full"])),
    st.just(Backoff.none()),
)


@st.composite
def policies(draw, *, deadline=None):
    limit = draw(st.one_of(st.none(), SOME_SECONDS) if deadline is None else deadline)
    return Policy(
        tries=draw(st.integers(1, 6)),
        max_wait=draw(SECONDS),
        deadline=limit,
        attempt_timeout=draw(st.one_of(st.none(), SOME_SECONDS)),
        min_attempt=min(draw(SECONDS), math.inf if limit is None else limit),
        backoff=draw(
            st.one_of(
                BACKOFFS, st.none(), st.dictionaries(st.sampled_from(["call", "rate_limited", "validation"]), BACKOFFS)
            )
        ),
        validation_tries=draw(st.one_of(st.none(), st.integers(1, 4))),
        max_requests=draw(st.one_of(st.none(), st.integers(1, 12))),
        hint_jitter=draw(st.sampled_from([0.0, 0.5, 1.0])),
    )


HINTS = st.integers(1, 12)
STEPS = st.lists(
    st.tuples(
        SECONDS,
        st.one_of(
            st.sampled_from(["fine", "bad", "reset", "mine", "503", "400"]),
            HINTS.map(lambda hint: f"429 {hint}"),
        ),
    ),
    min_size=1,
    max_size=8,
)


def hinted(seconds):
    headers = Message()
    if seconds:
        headers["Retry-After"] = seconds
    return urllib.error.HTTPError("http://x/", 429, "", headers, io.BytesIO(b""))


class Story:
    """A script with a clock, and what became of it."""

    def __init__(self, steps):
        self.steps = steps
        self.clock = FakeClock()
        self.runs = []  # when each began
        self.ended = []  # when each ended, and the hint it ended with
        self.ends = []
        self.retries = []

    def __call__(self):
        self.runs.append(self.clock.now())
        taken, outcome = self.steps[min(len(self.runs), len(self.steps)) - 1]
        self.clock.advance(taken)
        hint = float(outcome.partition(" ")[2] or 0)
        self.ended.append((self.clock.now(), hint))
        if hint:
            raise hinted(str(hint))
        if outcome in ("503", "400"):
            raise urllib.error.HTTPError("http://x/", int(outcome), "", Message(), io.BytesIO(b""))
        if outcome == "reset":
            raise ConnectionResetError
        if outcome == "mine":
            raise KeyError(outcome)
        return outcome

    async def acall(self):
        return self()

    def bound(self, policy, seed=0):
        return policy.bind(
            validate=lambda answer: answer != "bad",
            sleep=self.clock.sleep,
            clock=self.clock,
            rng=seed,
            on_retry=self.retries.append,
            on_end=self.ends.append,
        )

    def play(self, front, policy, seed=0):
        """Its outcome: an answer, or the exception."""
        bound = self.bound(policy, seed)
        try:
            return bound.call(self) if front == "call" else asyncio.run(bound.acall(self.acall))
        except Exception as error:
            return error


@pytest.fixture(params=["call", "acall"], scope="module")
def front(request):
    return request.param


@law
@given(policy=policies(), steps=STEPS, seed=st.integers(0, 9))
def test_no_attempt_begins_before_the_hint(front, policy, steps, seed):
    story = Story(steps)
    story.play(front, policy, seed)
    for (ended, hint), begun in zip(story.ended, story.runs[1:], strict=False):
        assert begun >= ended + hint


@law
@given(policy=policies(deadline=SOME_SECONDS), steps=STEPS, seed=st.integers(0, 9))
def test_no_attempt_begins_at_or_after_the_deadline_and_no_wait_reaches_it(front, policy, steps, seed):
    story = Story(steps)
    outcome = story.play(front, policy, seed)
    least = policy.min_attempt
    assert all(begun < policy.deadline for begun in story.runs)
    assert all(policy.deadline - begun >= least for begun in story.runs[1:])
    if story.ended:
        assert story.clock.now() <= max(policy.deadline, story.ended[-1][0])
        assert story.ended[-1][0] < policy.deadline or outcome != "fine"


@law
@given(policy=policies(), steps=STEPS, seed=st.integers(0, 9))
def test_attempts_stay_within_their_bound_and_the_worst_case(front, policy, steps, seed):
    story = Story(steps)
    story.play(front, policy, seed)
    most = policy.tries * (policy.validation_tries or 1)
    if policy.max_requests is not None:
        most = min(most, policy.max_requests)
    assert len(story.runs) <= most == policy.worst_case().requests


@law
@given(policy=policies(), steps=STEPS, seed=st.integers(0, 9))
def test_exactly_one_record_is_told_of_each_call_and_it_is_true(front, policy, steps, seed):
    story = Story(steps)
    outcome = story.play(front, policy, seed)
    (end,) = story.ends
    assert [one.number for one in end.attempts] == list(range(1, len(story.runs) + 1))
    assert end.requests == len(story.runs)
    assert (end.outcome == "answered") == (outcome == "fine") == (end.stop_reason is None)
    assert len(story.retries) == len(story.clock.sleeps) == max(0, len(story.runs) - 1)
    assert [one.wait for one in end.attempts if one.wait is not None] == pytest.approx(story.clock.sleeps)
    assert end.elapsed == pytest.approx(story.clock.now())


@law
@given(policy=policies(), steps=STEPS, seed=st.integers(0, 9))
def test_what_is_raised_is_the_last_failure_unless_the_deadline_is_why(front, policy, steps, seed):
    story = Story(steps)
    outcome = story.play(front, policy, seed)
    (end,) = story.ends
    if outcome == "fine":
        return
    assert isinstance(outcome, steadycall.DeadlineExceeded) == (end.stop_reason in ("deadline", "min_attempt"))
    if not isinstance(outcome, steadycall.DeadlineExceeded):
        _, last = steps[min(len(story.runs), len(steps)) - 1]
        kinds = {"reset": ConnectionResetError, "mine": KeyError, "bad": steadycall.ResponseError}
        assert isinstance(outcome, kinds.get(last, urllib.error.HTTPError))


@law
@given(policy=policies(), steps=STEPS, seed=st.integers(0, 9))
def test_the_fronts_decide_alike(policy, steps, seed):
    told = []
    for front in ("call", "acall"):
        story = Story(steps)
        outcome = story.play(front, policy, seed)
        told.append((story.runs, story.clock.sleeps, type(outcome)))
    assert told[0] == told[1]


@law
@given(policy=policies(), steps=STEPS, most=st.integers(1, 5), limit=SOME_SECONDS)
def test_a_scope_bounds_every_policy(front, policy, steps, most, limit):
    story = Story(steps)
    with scope(requests=most, deadline=limit, clock=story.clock) as account:
        for _ in range(3):
            story.play(front, policy)
        assert account.left() == most - len(story.runs)
    assert len(story.runs) <= most
    assert all(begun < limit for begun in story.runs)
    assert len(story.ends) == 3


@law
@given(policy=policies(), chains=st.integers(1, 3), within=SOME_SECONDS.map(lambda some: some * 20))
def test_a_worst_case_is_what_require_within_goes_by(policy, chains, within):
    worst = policy.worst_case(chains).seconds
    fits = worst is not None and worst <= within
    try:
        policy.require_within(within, chains=chains)
    except steadycall.BudgetError:
        assert not fits
    else:
        assert fits


@law
@given(policy=policies(), chains=st.integers(1, 3), within=SOME_SECONDS.map(lambda some: some * 20))
def test_the_longest_attempt_timeout_is_one_that_fits(policy, chains, within):
    policy = policy.replace(deadline=None)
    try:
        longest = policy.max_attempt_timeout(within, chains=chains)
    except steadycall.BudgetError:
        return
    assert policy.replace(attempt_timeout=longest).worst_case(chains).seconds == pytest.approx(within)


@law
@given(policy=policies(), steps=STEPS)
def test_no_call_takes_longer_than_the_worst_case(policy, steps):
    """The scripted attempts keep to the attempt timeout, as those of a front that cuts them would."""
    worst = policy.worst_case().seconds
    limit = policy.attempt_timeout
    if worst is None or limit is None or policy.hint_jitter:
        return
    story = Story([(min(taken, limit), outcome) for taken, outcome in steps])
    story.play("call", policy)
    # A plain function that began within the deadline is not cut by it.
    assert story.clock.now() <= worst + (0 if policy.deadline is None else limit)


# ---- what is left behind -----------------------------------------------------------------------------------------


class Payload:
    """Something large that a frame of the user's holds."""


def leaving(script, run):
    """Run it without the collector, and tell whether what its frames held is gone once its error is."""
    gone = []
    kept = None

    def work(step):
        payload = Payload()
        gone.append(weakref.ref(payload))
        return step()

    gc.collect()
    gc.disable()
    try:
        try:
            run(work, ScriptedOperation(script))
        except Exception as error:
            kept = type(error)
        del work
        return kept, [ref() for ref in gone if ref() is not None]
    finally:
        gc.enable()


def decorated(work, step):
    retry(tries=2, sleep=[].append)(work)(step)


def decorated_with_limits(work, step):
    retry(tries=2, deadline=60, attempt_timeout=30, sleep=[].append)(work)(step)


def by_policy(work, step):
    Policy(tries=2).bind(sleep=[].append).call(work, step)


def validated(work, step):
    Policy(tries=2).bind(sleep=[].append, validate=lambda answer: answer != "bad").call(work, step)


def nested(work, step):
    outer, inner = (Policy(tries=2).bind(sleep=[].append) for _ in range(2))
    outer.call(inner.call, work, step)


def within_a_scope(work, step):
    with scope(requests=9, deadline=60):
        by_policy(work, step)


def out_of_requests(work, step):
    with scope(requests=1):
        by_policy(work, step)


def out_of_time(work, step):
    clock = FakeClock()
    Policy(deadline=1, backoff=Backoff.fixed(5)).bind(clock=clock, sleep=clock.sleep).call(work, step)


FRONTS = [
    *(decorated, decorated_with_limits, by_policy, validated, nested, within_a_scope, out_of_requests),
    out_of_time,
]


@pytest.mark.parametrize("run", FRONTS, ids=lambda run: run.__name__)
@pytest.mark.parametrize(
    "script",
    [["fine"], [TimeoutError, "fine"], [TimeoutError, TimeoutError], [KeyError], ["bad", "bad"]],
    ids=["fine", "recovers", "exhausted", "programming error", "bad"],
)
def test_no_cycle_keeps_the_frames_of_an_exception_alive_after_a_call(run, script):
    _, alive = leaving(script, run)
    assert alive == []


def awaiting(act):
    """Caught within the coroutine: a task that fails is itself a cycle with its exception."""

    def run(work, step):
        async def coroutine(step):
            return work(step)

        async def main():
            try:
                await act(coroutine, step)
            except (TimeoutError, KeyError):
                pass

        asyncio.run(main())

    return run


def a_decorated(coroutine, step):
    return retry(tries=2, sleep=[].append)(coroutine)(step)


def a_by_policy(coroutine, step):
    return Policy(tries=2, deadline=60).bind(sleep=[].append).acall(coroutine, step)


@pytest.mark.parametrize("act", [a_decorated, a_by_policy], ids=lambda act: act.__name__)
@pytest.mark.parametrize(
    "script",
    [["fine"], [TimeoutError, "fine"], [TimeoutError, TimeoutError], [KeyError]],
    ids=["fine", "recovers", "exhausted", "programming error"],
)
def test_no_cycle_keeps_the_frames_of_an_awaited_exception_alive_after_a_call(act, script):
    _, alive = leaving(script, awaiting(act))
    assert alive == []
