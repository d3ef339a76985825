"""``retry`` and the two fronts: what is run again, what is raised, and what becomes of a cut or interrupted run."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import inspect
import sys
import threading
import weakref
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadycall
from steadycall import (
    Backoff,
    ConfigError,
    DeadlineExceeded,
    Failure,
    FailureKind,
    Policy,
    StopReason,
    attempts,
    retry,
)
from steadycall.testing import FakeClock, ScriptedOperation

AT_ONCE = Policy(tries=3, backoff=Backoff.none())


def answered(status, **headers):
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return steadycall.HTTPStatusError(url="http://x/", code=status, msg="", why="w", header_pairs=pairs)


def notes(error):
    return getattr(error, "__notes__", [])


def ignore(_seconds):
    """A sleep that does not."""


# What is retried


def test_a_function_is_run_until_it_succeeds(front):
    operation = ScriptedOperation([ConnectionError(), TimeoutError(), "well"])
    assert front.call(AT_ONCE, operation, 7) == "well"
    assert [call.args for call in operation.calls] == [(7,)] * 3


def test_the_last_error_is_raised_as_itself_with_a_note(front):
    errors = [ConnectionError(n) for n in range(3)]
    with pytest.raises(ConnectionError) as caught:
        front.call(AT_ONCE, ScriptedOperation(errors), sleep=ignore)
    assert caught.value is errors[2]
    assert notes(caught.value) == ["steadycall: Stopped after 3 attempts: all 3 tries are used up."]
    assert caught.value.__context__ is None


def test_one_exception_raised_many_times_gets_one_note(front):
    kept = ConnectionError()
    for _ in range(2):
        with pytest.raises(ConnectionError):
            front.call(AT_ONCE, ScriptedOperation([kept] * 3), sleep=ignore)
    assert len(notes(kept)) == 1


class Business(Exception):
    """Of which nothing is known."""


@pytest.mark.parametrize("error", [TypeError(), NameError(), AttributeError(), Business(), ValueError(), KeyError()])
def test_programming_errors_and_unknown_exceptions_are_not_retried_by_default(front, error):
    operation = ScriptedOperation([error])
    with pytest.raises(type(error)):
        front.call(AT_ONCE, operation)
    assert operation.remaining == 0
    assert "Stopped after 1 attempt" in notes(error)[0]


def test_retry_on_names_the_types_to_retry_and_no_others(front):
    policy = AT_ONCE.replace(retry_on=(Business, KeyError))
    assert front.call(policy, ScriptedOperation([Business(), KeyError(), "well"])) == "well"
    with pytest.raises(ConnectionError):
        front.call(policy, ScriptedOperation([ConnectionError()]))


@pytest.mark.parametrize("error", [TypeError, AttributeError, FileNotFoundError])
def test_a_fault_of_the_program_is_retried_where_it_is_named_and_not_by_its_parents(front, error):
    assert front.call(AT_ONCE.replace(retry_on=error), ScriptedOperation([error(), "well"])) == "well"
    with pytest.raises(error):
        front.call(AT_ONCE.replace(retry_on=Exception), ScriptedOperation([error()]))


def test_a_named_type_does_not_overrule_what_the_provider_says(front):
    with pytest.raises(steadycall.HTTPStatusError):
        front.call(AT_ONCE.replace(retry_on=Exception), ScriptedOperation([answered(400)]))


class Stated(ConnectionError):
    kind = FailureKind.PERMANENT


def test_the_kind_is_a_field_so_a_permanent_subclass_of_a_retried_type_is_not_retried(front):
    for policy in (AT_ONCE, AT_ONCE.replace(retry_on=ConnectionError)):
        with pytest.raises(Stated):
            front.call(policy, ScriptedOperation([Stated()]))


def test_an_exception_that_states_its_kind_is_known_by_it(front):
    slow = type("Slow", (Exception,), {"kind": FailureKind.RATE_LIMITED})
    waits: list[float] = []
    policy = Policy(tries=2, backoff={"rate_limited": Backoff.fixed(3)})
    assert front.call(policy, ScriptedOperation([slow(), "well"]), sleep=waits.append) == "well"
    assert waits == [3.0]


def test_retry_if_says_no_as_judged_or_something_else(front):
    seen = []

    def gate(said):
        def retry_if(failure, error):
            seen.append((failure.kind, type(error)))
            return said

        return AT_ONCE.replace(retry_if=retry_if)

    for as_judged in (True, None):
        assert front.call(gate(as_judged), ScriptedOperation([ConnectionError(), 1])) == 1
        with pytest.raises(Business):
            front.call(gate(as_judged), ScriptedOperation([Business()]))
    with pytest.raises(ConnectionError) as caught:
        front.call(gate(False), ScriptedOperation([ConnectionError()]))
    assert "retry_if" in notes(caught.value)[0]
    told = steadycall.classify_exception(ConnectionError())
    assert front.call(gate(told), ScriptedOperation([Business(), 1])) == 1
    assert seen[0] == (FailureKind.CALL, ConnectionError)
    with pytest.raises(ConfigError, match="retry_if"):
        front.call(gate("yes"), ScriptedOperation([ConnectionError()]))


@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("nan")])
def test_a_replaced_failure_whose_hint_is_no_wait_has_no_hint(front, seconds):
    judged = steadycall.classify_exception(ConnectionError())
    told = Failure(**{**vars(judged), "hint": steadycall.Hint(seconds=seconds, source="me")})
    waits: list[float] = []
    policy = Policy(backoff=Backoff.fixed(2), retry_if=lambda *_: told)
    assert front.call(policy, ScriptedOperation([ConnectionError(), 1]), sleep=waits.append) == 1
    assert waits == [2.0]


def test_a_hint_of_a_functions_error_is_obeyed_and_a_long_one_ends_the_call(front):
    waits: list[float] = []
    assert front.call(Policy(), ScriptedOperation([answered(429, retry_after="7"), 1]), sleep=waits.append) == 1
    assert waits == [7.0]
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        front.call(Policy(), ScriptedOperation([answered(429, retry_after="70")]), sleep=waits.append)
    assert "70 s and max_wait is 60 s" in notes(caught.value)[0]


class Foreign(Exception):
    """As SDKs have them: a status on a response."""

    def __init__(self, status):
        self.response = type(
            "Response", (), {"status_code": status, "headers": {}, "content": b"", "url": "http://x/"}
        )()


Foreign.__module__, Foreign.__name__ = "openai", "APIStatusError"


def test_retry_status_of_a_policy_holds_for_exceptions_with_an_answer(front):
    teapots = AT_ONCE.replace(retry_status={418})
    assert front.call(teapots, ScriptedOperation([Foreign(418), "well"])) == "well"
    with pytest.raises(Foreign):
        front.call(teapots, ScriptedOperation([Foreign(503)]))
    assert front.call(AT_ONCE, ScriptedOperation([Foreign(503), "well"])) == "well"


@pytest.mark.parametrize("switch", ["retry_transport", "retry_maybe_processed"])
@pytest.mark.parametrize("error", [ConnectionResetError, TimeoutError])
def test_a_fault_of_the_transport_is_not_retried_where_that_is_switched_off(front, switch, error):
    with pytest.raises(error):
        front.call(AT_ONCE.replace(**{switch: False}), ScriptedOperation([error()]))


def test_what_was_handled_outside_tells_nothing_about_the_function(front):
    try:
        raise answered(400)
    except steadycall.HTTPStatusError:
        assert front.call(AT_ONCE, ScriptedOperation([ConnectionError(), "well"])) == "well"


def test_an_error_keeps_its_own_context_when_it_is_raised_on(front):
    def work():
        try:
            raise KeyError("inner")
        except KeyError:
            raise Business  # noqa: B904 - the context is what is looked at

    async def main():
        try:
            raise RuntimeError("outside")
        except RuntimeError:
            with pytest.raises(Business) as caught:
                await front.within(AT_ONCE, work)
            assert isinstance(caught.value.__context__, KeyError)
            inner = caught.value.__context__.__context__
        assert isinstance(inner, RuntimeError)

    asyncio.run(main())


# Control flow


@pytest.mark.parametrize("wish", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_wish_to_stop_passes_untouched_from_the_function_the_wait_and_the_validator(front, wish):
    if front.name == "async" and wish in (KeyboardInterrupt, SystemExit):
        pytest.skip("asyncio.run handles these itself")

    def stop(*_):
        raise wish

    for fn, hooks in ((stop, {}), (ScriptedOperation([ConnectionError()]), {"sleep": stop}), (int, {"validate": stop})):
        with pytest.raises(wish) as caught:
            front.call(AT_ONCE, fn, **hooks)
        assert notes(caught.value) == []


def test_a_wish_to_stop_deep_in_a_chain_is_raised_as_itself(front):
    stop = KeyboardInterrupt()

    def wrapped():
        raise RuntimeError from stop

    if front.name == "sync":
        with pytest.raises(KeyboardInterrupt) as caught:
            front.call(AT_ONCE, wrapped)
        assert caught.value is stop


def test_cancelling_a_task_ends_it_at_once_and_leaves_nothing_behind():
    async def main():
        runs = []

        @retry(tries=5, attempt_timeout=60, deadline=90)
        async def work():
            runs.append(1)
            await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runs == [1]
        assert task.cancelling() == 1

    asyncio.run(main())


# Time


def test_an_attempt_is_cut_by_its_timer_and_tried_again():
    runs = []

    @retry(tries=2, attempt_timeout=0.01, backoff=Backoff.none())
    async def work():
        runs.append(steadycall.current_attempt().number)
        await asyncio.Event().wait()

    with pytest.raises(steadycall.AttemptTimeout) as caught:
        asyncio.run(work())
    assert runs == [1, 2]
    assert caught.value.phase == "attempt"
    assert caught.value.stop_reason == StopReason.TRIES
    assert len(caught.value.attempts) == 2


def test_the_deadline_cuts_an_attempt_by_timer_and_is_told_as_such():
    @retry(deadline=0.01, attempt_timeout=60)
    async def work():
        await asyncio.Event().wait()

    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        asyncio.run(work())
    assert caught.value.stage == "attempt"


def test_an_exception_a_library_made_of_the_cut_is_still_the_cut():
    runs = []

    @retry(tries=2, attempt_timeout=0.01, backoff=Backoff.none())
    async def work():
        runs.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            raise RuntimeError("closed") from cancelled

    with pytest.raises(steadycall.AttemptTimeout):
        asyncio.run(work())
    assert len(runs) == 2


def test_a_cut_attempt_does_not_leave_its_task_cancelled():
    async def main():
        work = retry(tries=2, attempt_timeout=0.01, backoff=Backoff.none())(asyncio.Event().wait)
        with pytest.raises(steadycall.AttemptTimeout):
            await work()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(main())


def test_an_outer_timeout_is_not_taken_for_the_attempts_own():
    async def main():
        work = retry(tries=5, attempt_timeout=60)(asyncio.Event().wait)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await work()
        assert not isinstance(caught.value, steadycall.CallError)

    asyncio.run(main())


def test_an_attempt_timeout_needs_no_mention_in_retry_on_and_asks_retry_if():
    asked = []
    gate = {"retry_on": KeyError, "retry_if": lambda failure, error: bool(asked.append((failure.kind, type(error))))}
    work = retry(tries=5, attempt_timeout=0.01, **gate)(asyncio.Event().wait)
    with pytest.raises(steadycall.AttemptTimeout):
        asyncio.run(work())
    assert asked == [(FailureKind.CALL, TimeoutError)]


def test_a_late_answer_of_a_sync_function_is_kept_and_stays_out_of_pickle_and_repr():
    import pickle

    clock = FakeClock()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        Policy(deadline=5).bind(clock=clock).call(lambda: [clock.advance(5), "SECRET"][1])
    assert caught.value.late_result == "SECRET"
    assert caught.value.stage == "attempt"
    assert "SECRET" not in f"{caught.value!r} {caught.value} {pickle.dumps(caught.value)!r}"
    assert pickle.loads(pickle.dumps(caught.value)).late_result is None


def test_a_wait_that_reaches_the_deadline_ends_the_call_before_it(front):
    clock = FakeClock()
    error = answered(429, retry_after="5")
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        front.call(Policy(deadline=5), ScriptedOperation([error]), clock=clock, sleep=clock.sleep)
    assert caught.value.stage == "retry_delay"
    assert caught.value.__cause__ is error
    assert caught.value.retry_after == 5.0
    assert clock.sleeps == []


def test_a_sleep_that_overshoots_the_deadline_tells_the_failure_before_it(front):
    clock = FakeClock()
    error = ConnectionError()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        front.call(
            Policy(deadline=5, backoff=Backoff.fixed(1)),
            ScriptedOperation([error]),
            clock=clock,
            sleep=lambda _: clock.advance(9),
        )
    assert caught.value.stage == "before_attempt"
    assert caught.value.__cause__ is error


def test_less_than_min_attempt_left_starts_no_attempt(front):
    clock = FakeClock()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        front.call(
            Policy(deadline=5, min_attempt=2, backoff=Backoff.fixed(4)),
            ScriptedOperation([ConnectionError()]),
            clock=clock,
            sleep=clock.sleep,
        )
    assert caught.value.stop_reason == StopReason.MIN_ATTEMPT


def test_a_function_is_told_number_remaining_and_timeout(front):
    clock = FakeClock()
    seen = []

    def work():
        attempt = steadycall.current_attempt()
        seen.append((attempt.number, attempt.remaining, attempt.timeout))
        clock.advance(2)
        seen.append((attempt.number, attempt.remaining, attempt.timeout))
        if len(seen) < 4:
            raise ConnectionError
        return "well"

    policy = Policy(deadline=10, attempt_timeout=7, backoff=Backoff.none())
    assert front.call(policy, work, clock=clock, sleep=clock.sleep) == "well"
    assert seen == [(1, 10.0, 7.0), (1, 8.0, 5.0), (2, 8.0, 7.0), (2, 6.0, 5.0)]
    with pytest.raises(RuntimeError, match="no attempt is under way"):
        steadycall.current_attempt()


@given(
    hints=st.lists(st.one_of(st.none(), st.floats(0.01, 20)), min_size=1, max_size=8),
    tries=st.integers(1, 8),
    deadline=st.one_of(st.none(), st.floats(0.5, 60)),
    spent=st.floats(0, 5),
    seed=st.integers(0, 2**32),
)
def test_laws_of_a_call(hints, tries, deadline, spent, seed):
    """Never earlier than a hint, never an attempt past the deadline, never more than the tries; one CallRecord."""
    clock, begun, records, told = FakeClock(), [], [], []

    def work():
        begun.append(clock.now())
        clock.advance(spent)
        if len(begun) <= len(hints):
            hint = hints[len(begun) - 1]
            raise answered(429, retry_after=str(hint)) if hint is not None else ConnectionError
        return "well"

    policy = Policy(tries=tries, deadline=deadline, max_wait=20, hint_jitter=0.2)
    bound = policy.bind(clock=clock, sleep=clock.sleep, rng=seed, on_retry=records.append, on_end=told.append)
    try:
        assert bound.call(work) == "well"
        outcome = "answered"
    except (steadycall.CallError, ConnectionError) as error:
        outcome = error
    assert 1 <= len(begun) <= tries
    assert len(records) == len(begun) - 1 == len(clock.sleeps)
    for record, slept in zip(records, clock.sleeps, strict=True):
        assert slept == record.wait
        assert record.hint is None or slept >= record.hint
    if deadline is not None:
        assert all(start < deadline for start in begun)
        assert outcome != "answered" or clock.now() < deadline
    assert len(told) == 1
    assert told[0].requests == len(told[0].attempts) == len(begun)
    assert (told[0].outcome == "answered") == (outcome == "answered")


# Observers


def test_each_retry_and_each_end_is_told_once(front):
    retries, ends = [], []
    hooks = {"on_retry": retries.append, "on_end": ends.append, "sleep": ignore}
    front.call(AT_ONCE, ScriptedOperation([ConnectionError(), answered(503), "well"]), **hooks)
    assert [(record.number, record.status, record.kind) for record in retries] == [(1, None, "call"), (2, 503, "call")]
    assert [record.outcome for record in ends] == ["answered"]
    with pytest.raises(KeyError):
        front.call(AT_ONCE, ScriptedOperation([KeyError()]), **hooks)
    assert [record.stop_reason for record in ends] == [None, StopReason.NOT_RETRYABLE]


def test_usage_is_summed_over_all_answers(front):
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 1}}
    ends = []
    verdicts = iter([False, True])
    front.call(AT_ONCE, lambda: usage, validate=lambda _: next(verdicts), on_end=ends.append, sleep=ignore)
    assert ends[0].usage == {"input_tokens": 20, "output_tokens": 2, "total_tokens": 22}


# The decorator


def test_the_decorator_keeps_name_docs_signature_and_whether_it_is_async():
    @retry(tries=2)
    def work(a: int, *, b: str = "x") -> str:
        """Its docs."""
        return f"{a}{b}"

    assert (work.__name__, work.__doc__) == ("work", "Its docs.")
    assert str(inspect.signature(work)) == "(a: 'int', *, b: 'str' = 'x') -> 'str'"
    assert work(1, b="y") == "1y"
    assert not inspect.iscoroutinefunction(work)

    @retry
    async def awork() -> int:
        return 1

    assert inspect.iscoroutinefunction(awork)
    assert asyncio.run(awork()) == 1


def test_every_way_to_write_the_decorator():
    policy = Policy(tries=2, backoff=Backoff.none())
    for decorate in (retry(policy), retry(policy.bind()), retry(policy, sleep=ignore), retry(tries=2, sleep=ignore)):
        work = decorate(ScriptedOperation([ConnectionError(), "well"]))
        assert work.policy.tries == 2
        assert work() == "well"
    assert retry(lambda: 1)() == 1
    assert retry()(lambda: 1)() == 1
    assert retry(policy, deadline=3)(int).policy == policy.replace(deadline=3)
    for wrong in (3, "policy"):
        with pytest.raises(ConfigError, match="policy"):
            retry(wrong)
    with pytest.raises(TypeError, match="retries"):
        retry(retries=3)


def test_retry_with_is_the_same_function_under_a_changed_policy():
    waits: list[float] = []
    operation = ScriptedOperation([ConnectionError(), ConnectionError(), "well"])
    work = retry(tries=2, sleep=waits.append, backoff=Backoff.fixed(1))(operation)
    more = work.retry_with(tries=3)
    assert (work.policy.tries, more.policy.tries) == (2, 3)
    assert more() == "well"
    assert waits == [1.0, 1.0]
    assert more.retry_with(sleep=None, tries=1).policy.tries == 1


class Service:
    def __init__(self):
        self.runs = 0

    @retry(tries=3, sleep=ignore)
    def ask(self, question):
        self.runs += 1
        if self.runs < 3:
            raise ConnectionError
        return f"{question}: {self.runs}"

    @retry(tries=3, sleep=ignore)
    async def aask(self, question):
        return Service.ask.__wrapped__(self, question)

    @classmethod
    @retry(tries=2)
    def of_class(cls):
        return cls.__name__

    @staticmethod
    @retry(tries=2)
    def static():
        return "static"


def test_methods_class_methods_and_static_methods_are_decorated_too():
    assert Service().ask("how") == "how: 3"
    assert asyncio.run(Service().aask("how")) == "how: 3"
    assert Service().of_class() == Service.of_class() == "Service"
    assert Service.static() == "static"
    assert Service().ask.policy.tries == 3
    once = Service()
    with pytest.raises(ConnectionError):
        Service.ask.retry_with(tries=1)(once, "how")
    assert once.runs == 1


@pytest.mark.parametrize("above", [classmethod, staticmethod])
def test_a_decorator_on_the_wrong_side_is_told_its_place(above):
    with pytest.raises(ConfigError, match=f"put retry below @{above.__name__}"):
        retry(above(lambda: 1))


def generates():
    yield 1


async def agenerates():
    yield 1


async def coroutine(*_):
    return 1


@pytest.mark.parametrize("fn", [generates, agenerates, functools.partial(generates)])
def test_generator_functions_are_refused(fn):
    with pytest.raises(ConfigError, match="generator function"):
        retry(fn)
    with pytest.raises(ConfigError, match="generator function"):
        Policy().call(fn)


def test_a_function_that_hands_on_a_generator_is_none():
    made = generates()
    assert retry(lambda: made)() is made
    assert Policy().call(lambda: made) is made


@pytest.mark.filterwarnings("error")
def test_the_wrong_front_for_a_function_is_named():
    with pytest.raises(ConfigError, match="needs acall"):
        Policy().call(coroutine)
    with pytest.raises(ConfigError, match="needs acall"):
        retry(lambda *_: coroutine())()
    with pytest.raises(ConfigError, match="needs call"):
        asyncio.run(Policy().acall(int))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("hook", ["sleep", "validate"])
def test_hooks_that_must_be_awaited_are_for_acall(hook):
    with pytest.raises(ConfigError, match="needs acall"):
        retry(**{hook: coroutine})(int)
    with pytest.raises(ConfigError, match="needs acall"):
        Policy().bind(**{hook: coroutine}).call(int)
    bound = Policy(backoff=Backoff.none()).bind(**{hook: lambda *_: coroutine()})
    with pytest.raises(ConfigError, match="needs acall"):
        bound.call(ScriptedOperation([ConnectionError(), 1]) if hook == "sleep" else int)


@pytest.mark.parametrize("hook", ["validate", "sleep", "clock", "on_retry", "on_end", "rng"])
def test_a_hook_that_makes_no_sense_is_named(hook):
    with pytest.raises(ConfigError) as caught:
        Policy().bind(**{hook: object()})
    assert caught.value.field == hook


def test_time_sleep_means_asyncio_sleep_in_the_async_front(fake_sleep):
    import time

    work = retry(tries=2, sleep=time.sleep, backoff=Backoff.fixed(3600))
    assert asyncio.run(work(ScriptedOperation([ConnectionError(), "well"]).acall)()) == "well"
    assert fake_sleep == [3600.0]


def test_trio_is_refused_by_name(monkeypatch):
    lowlevel = type("lowlevel", (), {"in_trio_run": staticmethod(lambda: True)})
    monkeypatch.setitem(sys.modules, "trio", type("trio", (), {"lowlevel": lowlevel}))
    running = Policy().acall(coroutine)
    with pytest.raises(ConfigError, match="trio"):
        running.send(None)
    decorated = retry(coroutine)()
    with pytest.raises(ConfigError, match="trio"):
        decorated.send(None)


# Memory and threads


class Payload:
    """What a call must not keep alive."""


def fail(_payload):
    raise ConnectionError


def reject(_answer):
    raise ValueError


@pytest.mark.parametrize(
    ("policy", "fn", "hooks"),
    [
        (AT_ONCE, fail, {}),
        (AT_ONCE, ignore, {}),
        (AT_ONCE, ignore, {"validate": reject}),
        (AT_ONCE, ignore, {"validate": lambda _: False}),
        (Policy(deadline=5, attempt_timeout=4, backoff=Backoff.fixed(9)), fail, {}),
        (Policy(deadline=5, attempt_timeout=4), ignore, {"validate": reject}),
    ],
)
def test_nothing_is_kept_alive_by_a_call_that_ended(front, policy, fn, hooks):
    async def main():
        payload = Payload()
        seen = weakref.ref(payload)
        try:
            await front.within(policy, fn, payload, sleep=ignore, **hooks)
        except Exception:
            pass
        del payload
        assert seen() is None

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_nothing_is_kept_alive_by_a_decorated_function_that_failed():
    payload = Payload()
    seen = weakref.ref(payload)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ConnectionError):
            retry(tries=2, sleep=ignore)(fail)(payload)
        del payload
        assert seen() is None
    finally:
        gc.enable()


def test_one_decorated_function_serves_many_threads():
    runs = threading.local()
    done = []

    @retry(tries=3, sleep=ignore)
    def work():
        runs.count = getattr(runs, "count", 0) + 1
        if runs.count % 3:
            raise ConnectionError
        assert steadycall.current_attempt().number == 3
        return runs.count

    def many():
        done.extend(work() for _ in range(200))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted([3 * n for n in range(1, 201)] * 4)


# Odd functions and odd errors


@dataclasses.dataclass(frozen=True)
class Busy(OSError):
    code: int


def test_an_exception_that_refuses_attributes_is_raised_as_itself():
    def busy():
        raise Busy(2)

    with pytest.raises(Busy):
        Policy(tries=2).bind(sleep=[].append).call(busy)


def test_a_mock_is_no_coroutine_function():
    for double in (mock.Mock(return_value=5), mock.MagicMock(return_value=5), mock.Mock(spec=len, return_value=5)):
        assert retry(tries=2)(double)() == 5


def test_a_time_limit_of_the_functions_own_is_no_wish_to_stop():
    runs = []

    async def work():
        runs.append(1)
        async with asyncio.timeout(0.01):
            try:
                await asyncio.sleep(5)
            finally:
                raise ConnectionResetError("while it was cut")

    with pytest.raises(ConnectionResetError):
        asyncio.run(Policy(tries=3).bind(sleep=[].append).acall(work))
    assert len(runs) == 3


def test_a_cancelled_task_ends_as_cancelled_whatever_its_function_made_of_it():
    runs = []

    async def work():
        runs.append(1)
        try:
            await asyncio.sleep(5)
        finally:
            raise ConnectionResetError("while it was cancelled")

    async def main():
        task = asyncio.create_task(Policy(tries=3).bind(sleep=[].append).acall(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(runs) == 1


def test_the_text_of_a_cut_by_the_deadline_speaks_of_no_other_limit():
    async def work():
        await asyncio.sleep(5)

    with pytest.raises(DeadlineExceeded, match="The deadline cut the attempt") as caught:
        asyncio.run(Policy(deadline=0.02).acall(work))
    assert "attempt timeout" not in str(caught.value)


def test_what_is_no_policy_is_refused_by_name():
    for front in (retry, attempts):
        with pytest.raises(ConfigError, match="policy must be a Policy"):
            front(5)


def test_a_gate_that_must_be_awaited_is_refused():
    async def gate(failure, error):
        return True

    with pytest.raises(ConfigError, match="retry_if"):
        Policy(retry_if=gate)
