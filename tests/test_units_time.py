"""The time of units: when nothing may begin any more, how long a call may take, and what waiting in line costs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall import Backoff, ConfigError, Deadline, Policy, StopReason, UnitGroup, scope
from steadycall._scope import around, unit_around
from steadycall.testing import FakeClock, FakeServer, ScriptedOperation

MINUTE = 60.0
POLICY = Policy(tries=3, backoff=Backoff.fixed(MINUTE), max_wait=30 * MINUTE)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def hour(clock):
    """A job of 60 minutes whose calls take 10 at most."""
    return UnitGroup(POLICY, 60 * MINUTE, 10 * MINUTE, 6, clock=clock, sleep=clock.sleep)


@pytest.fixture
def saved():
    return []


@pytest.fixture(params=["run", "arun"])
def run(request):
    if request.param == "run":
        return lambda group, **given: group.run(**given)

    def arun(group, *, call, **given):
        async def acall():
            return call()

        return asyncio.run(group.arun(call=acall, **given))

    return arun


# When nothing may begin any more


def test_nothing_new_begins_from_minute_50(run, hour, clock, saved):
    clock.advance(50 * MINUTE - 1)
    assert hour.remaining() == 1.0
    assert run(hour, call=lambda: "in time", save=saved.append).outcome == "saved"
    clock.advance(1)
    late = run(hour, call=ScriptedOperation([]), save=saved.append)
    assert (late.outcome, late.requests, late.cause) == ("deadline", 0, "No call may begin any more.")
    assert hour.remaining() == 0.0
    assert not hour.stopped
    assert saved == ["in time"]


def test_a_call_that_began_in_time_may_end_later(run, hour, clock, saved):
    clock.advance(49 * MINUTE)
    result = run(hour, call=lambda: clock.advance(9 * MINUTE) or "at minute 58", save=saved.append)
    assert result.outcome == "saved"


def test_an_answer_in_the_wrong_form_is_not_called_for_again_from_minute_50(run, hour, clock, saved):
    clock.advance(45 * MINUTE)
    model = ScriptedOperation([lambda: clock.advance(5 * MINUTE) or "bad"])
    result = run(hour, call=model, validate=lambda _: False, save=saved.append)
    assert (result.outcome, result.requests) == ("deadline", 1)
    assert isinstance(result.error, steadycall.ResponseError)
    assert result.cause == f"No call may begin any more. Before that: {result.error.failure.reason}"
    assert result.record.stop_reason == StopReason.DEADLINE


def test_a_transport_retry_that_would_begin_from_minute_50_is_not_waited_for(run, hour, clock, saved):
    clock.advance(49 * MINUTE)
    model = ScriptedOperation([ConnectionError("reset")])
    result = run(hour, call=model, save=saved.append)
    assert (result.outcome, result.requests) == ("deadline", 1)
    assert isinstance(result.error, steadycall.DeadlineExceeded)
    assert str(result.error.__cause__) == "reset"
    assert (result.error.stage, result.error.stop_reason) == ("retry_delay", StopReason.DEADLINE)
    assert "the deadline leaves no time for the wait before another attempt" in result.cause
    assert result.error.attempts[0].wait is None
    assert clock.sleeps == []


def test_nor_is_it_in_layers_below(run, hour, clock, saved):
    clock.advance(49 * MINUTE)
    inner = POLICY.bind(clock=clock, sleep=clock.sleep)
    model = ScriptedOperation([ConnectionError("reset")])
    assert run(hour, call=lambda: inner.call(model), save=saved.append).outcome == "deadline"
    assert clock.sleeps == []


def test_a_failure_from_minute_50_on_is_the_deadlines(run, hour, clock, saved):
    def fails_late():
        clock.advance(2 * MINUTE)
        raise ConnectionError("reset")

    clock.advance(49 * MINUTE)
    result = run(hour, call=ScriptedOperation([fails_late]), save=saved.append)
    assert (result.outcome, result.requests, str(result.error)) == ("deadline", 1, "reset")
    assert result.record.stop_reason == StopReason.DEADLINE
    assert result.cause.startswith("No call may begin any more. Before that: The connection broke")
    assert clock.sleeps == []


def test_http_calls_begin_no_retry_from_minute_50_either(run, hour, clock, saved):
    def late(_request):
        clock.advance(2 * MINUTE)
        return 503

    with FakeServer() as server:
        server.answer("*", late)
        clock.advance(49 * MINUTE)
        result = run(hour, call=lambda: steadycall.call(server.url, {}, sleep=clock.sleep), save=saved.append)
        assert (result.outcome, len(server.requests)) == ("deadline", 1)
    assert clock.sleeps == []


def test_a_call_that_takes_its_time_before_it_asks_is_not_sent_from_minute_50(run, hour, clock, saved):
    def call():
        clock.advance(2 * MINUTE)  # it reads what to ask
        return steadycall.call(server.url, {})

    with FakeServer() as server:
        clock.advance(49 * MINUTE)
        result = run(hour, call=call, save=saved.append)
        assert (result.outcome, result.requests, len(server.requests)) == ("deadline", 0, 0)
    inner = Policy().bind(clock=clock)
    fresh = UnitGroup(POLICY, 60 * MINUTE, 10 * MINUTE, clock=clock)
    clock.advance(49 * MINUTE)
    result = run(fresh, call=lambda: inner.call(clock.advance(2 * MINUTE) or ScriptedOperation([])), save=saved.append)
    assert (result.outcome, result.requests) == ("deadline", 0)


def test_the_time_may_be_a_deadline_that_was_handed_down(run, clock, saved):
    job = Deadline.after(60 * MINUTE, clock=clock)
    clock.advance(20 * MINUTE)
    group = UnitGroup(POLICY, job, 10 * MINUTE)
    assert group.remaining() == 30 * MINUTE
    clock.advance(35 * MINUTE)
    assert UnitGroup(POLICY, job, 10 * MINUTE).remaining() == 0.0
    assert run(group, call=ScriptedOperation([]), save=saved.append).outcome == "deadline"


def test_a_call_limit_that_lets_nothing_begin_is_refused():
    with pytest.raises(ConfigError, match="less than the runtime_limit of 60 s"):
        UnitGroup(POLICY, 60, 60)


# How long a call may take


def test_the_call_limit_covers_one_call_with_its_retries_and_each_call_afresh(run, hour, clock, saved):
    seen = []

    def taking(minutes, outcome):
        def step():
            seen.append(steadycall.current_attempt().timeout / MINUTE)
            clock.advance(minutes * MINUTE)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return step

    model = ScriptedOperation([taking(3, ConnectionError()), taking(4, "bad"), taking(5, "good")])
    result = run(hour, call=model, validate=lambda answer: answer == "good", save=saved.append)
    assert result.outcome == "saved"
    assert seen == [10.0, 6.0, 10.0]  # a minute's wait between the first two
    assert result.call_seconds == 13 * MINUTE


def test_a_retry_beyond_the_call_limit_is_not_waited_for(run, hour, clock, saved):
    def fails_late():
        clock.advance(9.5 * MINUTE)
        raise ConnectionError

    result = run(hour, call=ScriptedOperation([fails_late]), save=saved.append)
    assert (result.outcome, result.error.stage) == ("deadline", "retry_delay")
    assert clock.sleeps == []


def test_a_min_attempt_that_the_call_limit_leaves_no_room_for_is_a_deadline_too(run, clock, saved):
    policy = Policy(tries=3, min_attempt=5 * MINUTE, backoff=Backoff.fixed(MINUTE))
    group = UnitGroup(policy, 60 * MINUTE, 10 * MINUTE, clock=clock, sleep=clock.sleep)

    def fails_late():
        clock.advance(6 * MINUTE)
        raise ConnectionError

    result = run(group, call=ScriptedOperation([fails_late]), save=saved.append)
    assert (result.outcome, result.record.stop_reason) == ("deadline", StopReason.MIN_ATTEMPT)


def test_an_answer_after_the_call_limit_is_none(run, hour, clock, saved):
    result = run(hour, call=lambda: clock.advance(11 * MINUTE) or "late", save=saved.append)
    assert (result.outcome, result.answer) == ("deadline", None)
    assert result.cause.startswith("The call_limit of 600 s was over. Before that: ")
    assert result.error.late_result == "late"  # it was paid for
    assert saved == []


def test_a_coroutine_function_is_cut_at_the_call_limit(saved):
    async def main():
        group = UnitGroup(Policy(), 60, 0.02)
        return await group.arun(call=asyncio.Event().wait, save=saved.append)

    result = asyncio.run(main())
    assert (result.outcome, result.error.stage) == ("deadline", "attempt")


def test_an_http_call_is_cut_at_the_call_limit(run, saved):
    with FakeServer(steadycall.testing.Answer(json={}, delay=30)) as server:
        result = run(UnitGroup(Policy(), 60, 0.05), call=lambda: steadycall.call(server.url, {}), save=saved.append)
    assert (result.outcome, result.error.stage) == ("deadline", "attempt")


def test_a_scope_around_the_unit_bounds_it_too(run, hour, clock, saved):
    with scope(deadline=2 * MINUTE, clock=clock):
        timeouts = []
        run(hour, call=lambda: timeouts.append(steadycall.current_attempt().timeout) or 1, save=saved.append)
        assert timeouts == [2 * MINUTE]
        clock.advance(3 * MINUTE)
        assert run(hour, call=ScriptedOperation([]), save=saved.append).outcome == "deadline"


def test_the_saving_has_all_the_time_it_wants(run, hour, clock, saved):
    def save(answer):
        clock.advance(100 * MINUTE)
        saved.append(answer)

    assert run(hour, call=lambda: "Hi.", save=save).outcome == "saved"


def test_a_thread_that_goes_on_after_the_unit_is_free_of_it(hour, clock):
    kept = []
    hour.run(call=lambda: kept.append(around()) or 1, save=print)
    unit = unit_around(kept[0])
    clock.advance(55 * MINUTE)
    hour.stop()
    assert (unit.may_start(), unit.left(), unit.remaining(), unit.start_within()) == (True, None, None, None)
    assert unit.spend()
    assert unit.spent == 1


# Waiting in line


class Line:
    """One permit for all, as a client's queue would have it, asking the unit what such a queue has to ask."""

    def __init__(self):
        self.permit = threading.Semaphore(1)
        self.in_line = 0

    def call(self, work):
        unit = unit_around(around())
        unit.line_up()
        self.in_line += 1
        assert self.permit.acquire(timeout=5)
        try:
            if not unit.permitted():
                raise steadycall.Refused(why="not any more", stop_reason=StopReason.REQUEST_BUDGET)
            return work(unit)
        finally:
            self.permit.release()


def test_the_time_of_a_call_counts_from_its_first_permit(hour, clock, saved):
    line = Line()
    line.permit.acquire()
    seen = []

    def work(unit):
        seen.append((unit.remaining(), unit.start_within(), steadycall.current_attempt().timeout))
        clock.advance(8 * MINUTE)
        return "Hi."

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hour.run, call=lambda: line.call(work), save=saved.append)
        until(lambda: line.in_line)
        clock.advance(40 * MINUTE)  # four times the call limit, in line
        line.permit.release()
        result = waiting.result()
    assert result.outcome == "saved"
    assert seen == [(10 * MINUTE, 10 * MINUTE, 10 * MINUTE)]
    assert result.call_seconds == 8 * MINUTE


def test_a_permit_that_comes_from_minute_50_on_is_given_back_unused(hour, clock, saved):
    line = Line()
    line.permit.acquire()
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(hour.run, call=lambda: line.call(ScriptedOperation([])), save=saved.append)
        until(lambda: line.in_line)
        clock.advance(50 * MINUTE)
        line.permit.release()
        assert late.result().outcome == "deadline"
    assert line.permit.acquire(blocking=False)


def test_a_request_that_was_allowed_and_then_not_is_not_spent(hour):
    def call():
        unit = unit_around(around())
        before = unit.may_start(), unit.left()
        hour.stop()
        return before, (unit.may_start(), unit.left(), unit.spend(), unit.start_within(), unit.spent)

    asked = []
    result = hour.run(call=call, validate=asked.append, save=print)
    assert result.outcome == "stopped"
    assert asked == [((True, 5), (False, 0, False, 0.0, 1))]


def test_a_permit_that_comes_after_the_group_was_stopped_is_given_back_unused(hour, saved):
    line = Line()
    line.permit.acquire()
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(hour.run, call=lambda: line.call(ScriptedOperation([])), save=saved.append)
        until(lambda: line.in_line)
        hour.stop()
        line.permit.release()
        assert stopped.result().outcome == "stopped"
    assert line.permit.acquire(blocking=False)


def test_a_wait_in_line_after_the_first_permit_counts(hour, clock, saved):
    def call():
        unit = unit_around(around())
        for minutes in (4, 4):
            unit.line_up()
            clock.advance(minutes * MINUTE)
            assert unit.permitted()
        return unit.remaining() / MINUTE

    hour.run(call=call, save=saved.append)
    assert saved == [6.0]


def test_who_leaves_the_line_without_a_permit_waits_on_without_cost(hour, clock, saved):
    def call():
        unit = unit_around(around())
        for _ in range(3):
            unit.line_up()
            clock.advance(4 * MINUTE)
            unit.leave_line()
        return unit.remaining() / MINUTE

    hour.run(call=call, save=saved.append)
    assert saved == [10.0]


def test_of_several_in_line_the_first_permit_counts(clock):
    group = UnitGroup(POLICY, 60 * MINUTE, 10 * MINUTE, clock=clock)
    seen = []

    def call():
        unit = unit_around(around())
        unit.line_up()
        clock.advance(4 * MINUTE)
        unit.line_up()
        clock.advance(4 * MINUTE)
        unit.leave_line()
        clock.advance(2 * MINUTE)
        unit.line_up()
        assert unit.permitted()
        clock.advance(1 * MINUTE)
        assert unit.permitted()
        return seen.append(unit.remaining() / MINUTE) or 1

    group.run(call=call, save=print)
    assert seen == [9.0]


def test_a_task_that_waited_in_line_is_not_cut_for_that(saved):
    async def main():
        group = UnitGroup(Policy(tries=1), 60, 0.05)
        cut = []

        async def call():
            unit = unit_around(around())
            unit.line_up()
            await asyncio.sleep(0.2)  # four times the call limit
            assert unit.permitted()
            cut.append(unit.remaining())
            await asyncio.Event().wait()

        result = await group.arun(call=call, save=saved.append)
        return result, cut

    result, cut = asyncio.run(main())
    assert (result.outcome, result.error.stage) == ("deadline", "attempt")
    assert 0.0 < cut[0] <= 0.05
    assert result.call_seconds < 0.2


def until(true):
    for _ in range(5000):
        if true():
            return
        threading.Event().wait(0.001)
    raise AssertionError("in vain")


def test_outside_of_units_there_is_nothing_to_ask():
    assert unit_around(around()) is None
    with scope(requests=3):
        assert unit_around(around()) is None
        assert Policy().call(lambda: unit_around(around())) is None
