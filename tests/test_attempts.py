"""``attempts``: the same loop around a block of code."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import steadycall
from steadycall import Backoff, ConfigError, FailureKind, Policy, Reject, StopReason, attempts
from steadycall.testing import FakeClock, ScriptedOperation

AT_ONCE = Policy(tries=3, backoff=Backoff.none())


def ignore(_seconds):
    """A sleep that does not."""


def sync_loop(policy, block, **options):
    for attempt in attempts(policy, **options):
        with attempt:
            answer = block(attempt)
    return answer


async def async_loop(policy, block, **options):
    async for attempt in attempts(policy, **options):
        async with attempt:
            answer = block(attempt)
    return answer


@pytest.fixture(params=["for", "async for"])
def loop(request):
    if request.param == "for":
        return sync_loop
    return lambda *args, **options: asyncio.run(async_loop(*args, **options))


def test_a_block_is_run_until_it_ends_well(loop):
    operation = ScriptedOperation([ConnectionError(), TimeoutError(), "well"])
    waits: list[float] = []
    policy = Policy(tries=3, backoff=Backoff.fixed(2))
    assert loop(policy, lambda attempt: (attempt.number, operation()), sleep=waits.append) == (3, "well")
    assert waits == [2.0, 2.0]


def test_the_last_error_of_a_block_is_raised_as_itself_with_a_note(loop):
    errors = [ConnectionError(n) for n in range(3)]
    operation = ScriptedOperation(errors)
    with pytest.raises(ConnectionError) as caught:
        loop(AT_ONCE, lambda _: operation(), sleep=ignore)
    assert caught.value is errors[2]
    assert caught.value.__notes__ == ["steadycall: Stopped after 3 attempts: all 3 tries are used up."]


@pytest.mark.parametrize("error", [KeyError(), TypeError(), Reject("no")])
def test_what_is_not_retried_leaves_the_loop_at_once(loop, error):
    operation = ScriptedOperation([error])
    with pytest.raises(type(error)):
        loop(AT_ONCE, lambda _: operation())


@pytest.mark.parametrize("wish", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_a_wish_to_stop_leaves_the_loop_untouched(wish):
    with pytest.raises(wish) as caught:
        sync_loop(AT_ONCE, ScriptedOperation([wish()]))
    assert not hasattr(caught.value, "__notes__")


def test_a_block_may_say_that_it_failed_though_nothing_was_raised(loop):
    kinds = iter(["call", FailureKind.RATE_LIMITED, "validation"])
    waits: list[float] = []
    policy = Policy(tries=4, backoff={"call": Backoff.fixed(1), "rate_limited": Backoff.fixed(2)})

    def block(attempt):
        if (kind := next(kinds, None)) is not None:
            attempt.fail(kind)
        return attempt.number

    assert loop(policy, block, sleep=waits.append) == 4
    assert waits == [1.0, 2.0, 0.0]


def test_a_block_that_keeps_failing_by_its_own_word_ends_in_a_response_error(loop):
    with pytest.raises(steadycall.ResponseError) as caught:
        loop(AT_ONCE, lambda attempt: attempt.fail("validation"), sleep=ignore)
    assert caught.value.stop_reason == StopReason.TRIES
    assert len(caught.value.attempts) == 3
    with pytest.raises(steadycall.ResponseError) as caught:
        loop(AT_ONCE, lambda attempt: attempt.fail("permanent"), sleep=ignore)
    assert caught.value.stop_reason == StopReason.NOT_RETRYABLE


def test_an_unknown_kind_is_refused(loop):
    with pytest.raises(ConfigError, match="kind must be one of call"):
        loop(AT_ONCE, lambda attempt: attempt.fail("bad"))


def test_an_attempt_that_was_never_entered_is_an_error_and_no_endless_loop():
    with pytest.raises(RuntimeError, match="not entered"):
        for _ in attempts(AT_ONCE):
            pass

    async def main():
        async for _ in attempts(AT_ONCE):
            pass

    with pytest.raises(RuntimeError, match="not entered"):
        asyncio.run(main())


def test_an_attempt_is_entered_once():
    for attempt in attempts(AT_ONCE):
        with attempt:
            pass
        with pytest.raises(RuntimeError, match="entered once"), attempt:
            pass


def test_a_loop_that_goes_on_within_its_block_is_an_error():
    loop = iter(attempts(AT_ONCE))
    with next(loop), pytest.raises(RuntimeError, match="still running"):
        next(loop)


def test_async_with_belongs_to_async_for():
    async def main():
        for attempt in attempts(AT_ONCE):
            async with attempt:
                pass

    with pytest.raises(RuntimeError, match="async for"):
        asyncio.run(main())


def test_break_continue_and_return_end_the_loop_well():
    runs = []
    for attempt in attempts(AT_ONCE):
        with attempt:
            runs.append("break")
            break
    for attempt in attempts(AT_ONCE):
        with attempt:
            runs.append("continue")
            continue

    def returns():
        for attempt in attempts(AT_ONCE):
            with attempt:
                return "return"
        return None

    assert [*runs, returns()] == ["break", "continue", "return"]
    with pytest.raises(RuntimeError, match="no attempt"):
        steadycall.current_attempt()


def test_one_object_can_be_looped_over_again():
    twice = attempts(AT_ONCE, sleep=ignore)
    for _ in range(2):
        operation = ScriptedOperation([ConnectionError(), "well"])
        for attempt in twice:
            with attempt:
                assert operation() == "well"
        assert operation.remaining == 0


def test_loops_nest_and_each_block_sees_its_own_attempt():
    seen = []
    for outer in attempts(AT_ONCE, sleep=ignore):
        with outer:
            for inner in attempts(AT_ONCE, sleep=ignore):
                with inner:
                    seen.append((outer.number, inner.number, steadycall.current_attempt().number))
                    if inner.number < 2:
                        raise ConnectionError
            assert steadycall.current_attempt().number == outer.number
            if outer.number < 2:
                raise ConnectionError
    assert seen == [(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 2, 2)]


def test_an_inner_loop_that_gave_up_is_final_for_the_outer_one():
    runs = []

    def fail(attempt):
        runs.append(attempt.number)
        raise ConnectionError

    with pytest.raises(ConnectionError) as caught:
        sync_loop(AT_ONCE, lambda _: sync_loop(AT_ONCE, fail, sleep=ignore), sleep=ignore)
    assert runs == [1, 2, 3]
    assert "a layer below gave up on it" in caught.value.__notes__[-1]


def test_remaining_and_timeout_are_told(loop):
    clock = FakeClock()
    seen = []

    def block(attempt):
        clock.advance(2)
        seen.append((attempt.remaining, attempt.timeout))

    loop(Policy(deadline=10, attempt_timeout=7), block, clock=clock, sleep=clock.sleep)
    assert seen == [(8.0, 5.0)]


def test_a_block_that_ends_after_the_deadline_is_late(loop):
    clock = FakeClock()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        loop(Policy(deadline=5), lambda _: clock.advance(6), clock=clock)
    assert caught.value.stage == "attempt"


def test_a_wait_past_the_deadline_ends_the_loop(loop):
    clock, error = FakeClock(), ConnectionError()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        loop(Policy(deadline=5, backoff=Backoff.fixed(9)), ScriptedOperation([error]), clock=clock, sleep=clock.sleep)
    assert caught.value.__cause__ is error


def test_an_async_block_is_cut_at_its_timeout():
    runs = []

    async def main():
        async for attempt in attempts(tries=2, attempt_timeout=0.01, backoff=Backoff.none()):
            async with attempt:
                runs.append(attempt.number)
                await asyncio.Event().wait()

    with pytest.raises(steadycall.AttemptTimeout):
        asyncio.run(main())
    assert runs == [1, 2]


def test_what_was_handled_around_the_loop_tells_nothing_about_the_block(loop):
    operation = ScriptedOperation([ConnectionError(), "well"])
    try:
        raise steadycall.HTTPStatusError(url="http://x/", code=400, msg="", why="w")
    except steadycall.HTTPStatusError:
        assert loop(AT_ONCE, lambda _: operation(), sleep=ignore) == "well"


def test_observers_are_told_of_a_loop(loop):
    retries, ends = [], []
    operation = ScriptedOperation([ConnectionError(), "well"])
    loop(AT_ONCE, lambda _: operation(), on_retry=retries.append, on_end=ends.append, sleep=ignore)
    assert [record.number for record in retries] == [1]
    assert [(record.outcome, len(record.attempts)) for record in ends] == [("answered", 2)]


def test_a_validator_is_refused_because_a_block_gives_no_answer():
    with pytest.raises(ConfigError, match=r"attempt\.fail"):
        attempts(validate=bool)


def test_what_a_block_says_of_its_failure_counts_whatever_it_raises():
    runs = []

    def block():
        for attempt in attempts(tries=5, sleep=[].append):
            with attempt:
                runs.append(1)
                attempt.fail("permanent")
                raise TimeoutError("and this is why")

    with pytest.raises(TimeoutError):
        block()
    assert len(runs) == 1


def test_a_loop_keeps_nothing_of_a_failed_attempt_alive():
    class Thing:
        pass

    seen = []

    def work(number):
        thing = Thing()
        seen.append(weakref.ref(thing))
        if number == 1:
            raise TimeoutError("once")

    def block():
        for attempt in attempts(tries=2, sleep=[].append):
            with attempt:
                work(attempt.number)

    gc.collect()
    gc.disable()
    try:
        block()
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()
