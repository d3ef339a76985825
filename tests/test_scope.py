"""``scope``: nested layers share one deadline and one account of requests."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall import Backoff, ConfigError, Deadline, Policy, StopReason, retry, scope
from steadycall.testing import Answer, FakeClock, FakeServer, ScriptedOperation, answers

OK = Answer(json={"ok": True})
AT_ONCE = Policy(tries=3, backoff=Backoff.none())


def ignore(_seconds):
    """A sleep that does not."""


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture(params=["call", "acall"])
def http(request):
    """One HTTP call, by either front."""
    if request.param == "call":
        return lambda url, **options: steadycall.call(url, {}, sleep=ignore, **options)
    return lambda url, **options: asyncio.run(steadycall.acall(url, {}, sleep=ignore, **options))


# Requests


def test_http_calls_spend_the_requests_of_their_scope(server, http):
    server.answer("*", 503)
    with scope(requests=2) as account, pytest.raises(steadycall.HTTPStatusError) as caught:
        http(server.url, tries=5)
    assert len(server.requests) == 2
    assert caught.value.stop_reason == StopReason.REQUEST_BUDGET
    assert "the requests allowed by the scope around it are used up" in str(caught.value)
    assert account.left() is None  # ended


def test_request_budget_spent_is_raised_only_if_nothing_was_sent(server, http):
    server.answer("*", OK)
    with scope(requests=1):
        http(server.url)
        with pytest.raises(steadycall.RequestBudgetSpent) as caught:
            http(server.url)
    assert caught.value.attempts == ()
    assert caught.value.sent == "no"
    assert len(server.requests) == 1


def test_a_wrapped_run_is_one_request_and_spends_it(front):
    with scope(requests=2), pytest.raises(ConnectionError) as caught:
        front.call(AT_ONCE, ScriptedOperation([ConnectionError()] * 2), sleep=ignore)
    assert "scope" in caught.value.__notes__[0]
    with scope(requests=1) as account:
        front.call(AT_ONCE, int)
        assert account.left() == 0
        with pytest.raises(steadycall.RequestBudgetSpent):
            front.call(AT_ONCE, ScriptedOperation([]))


def test_only_leaves_spend_so_a_run_around_two_calls_costs_two(server, front):
    server.answer("*", OK)

    def twice():
        steadycall.call(server.url, {})
        return steadycall.call(server.url, {})

    ends = []
    with scope(requests=10) as account:
        front.call(AT_ONCE, lambda: AT_ONCE.call(twice), on_end=ends.append)
        assert account.left() == 8
    assert ends[0].requests == 2


def test_max_requests_counts_those_of_the_layers_below(server, front):
    server.answer("*", 503)
    policy = Policy(tries=9, max_requests=4, retry_exhausted=True, backoff=Backoff.none())
    with pytest.raises(steadycall.HTTPStatusError):
        front.call(policy, lambda: steadycall.call(server.url, {}, tries=3, sleep=ignore), sleep=ignore)
    assert len(server.requests) == 4


def test_a_scope_is_not_overdrawn_by_runs_that_begin_at_once():
    async def main():
        runs = []

        @retry(tries=1)
        async def work():
            runs.append(1)
            await asyncio.sleep(0)

        with scope(requests=3):
            ends = await asyncio.gather(*[work() for _ in range(10)], return_exceptions=True)
        assert len(runs) == 3
        assert sum(isinstance(end, steadycall.RequestBudgetSpent) for end in ends) == 7

    asyncio.run(main())


def test_threads_that_share_a_scope_do_not_overdraw_it(server):
    server.answer("*", OK)
    with scope(requests=5) as account, ThreadPoolExecutor(8) as pool:
        work = account.carry(lambda: steadycall.call(server.url, {}))
        ends = [future.exception() for future in [pool.submit(work) for _ in range(20)]]
    assert len(server.requests) == 5
    assert sum(isinstance(end, steadycall.RequestBudgetSpent) for end in ends) == 15


def test_a_cancelled_run_was_paid_for():
    async def main():
        with scope(requests=2) as account:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await AT_ONCE.acall(asyncio.Event().wait)
            assert account.left() == 1

    asyncio.run(main())


# Deadlines


def test_a_scopes_deadline_ends_a_call_before_its_wait(server, http):
    server.answer("*", answers.openai.rate_limited(7))
    with scope(deadline=5), pytest.raises(steadycall.DeadlineExceeded) as caught:
        http(server.url)
    assert caught.value.stage == "retry_delay"
    assert len(server.requests) == 1


def test_a_scopes_deadline_is_counted_from_entering_and_on_its_own_clock(front):
    clock = FakeClock()
    late = scope(deadline=5, clock=clock)
    clock.advance(100)
    with late:
        assert late.remaining() == 5.0
        clock.advance(4)
        assert front.call(AT_ONCE, lambda: steadycall.current_attempt().remaining, clock=clock) == 1.0
        clock.advance(1)
        with pytest.raises(steadycall.DeadlineExceeded) as caught:
            front.call(AT_ONCE, ScriptedOperation([]), clock=clock)
        assert caught.value.stage == "before_attempt"


def test_a_scopes_deadline_cuts_an_async_run_by_its_timer():
    async def main():
        async with scope(deadline=0.02):
            await AT_ONCE.acall(asyncio.Event().wait)

    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        asyncio.run(main())
    assert caught.value.stage == "attempt"


def test_a_scopes_deadline_cuts_an_http_attempt(server, http):
    server.answer("*", Answer(json={}, delay=30))
    with scope(deadline=0.1), pytest.raises(steadycall.DeadlineExceeded) as caught:
        http(server.url)
    assert caught.value.stage == "attempt"


def test_a_deadline_that_was_handed_down_is_no_fresh_budget():
    clock = FakeClock()
    deadline = Deadline.after(5, clock=clock)
    clock.advance(3)
    with scope(deadline=deadline) as outer:
        assert outer.remaining() == 2.0


@pytest.mark.parametrize(("outer", "inner", "left"), [(5, 9, 5.0), (9, 5, 5.0), (None, 5, 5.0), (5, None, 5.0)])
def test_scopes_nest_by_the_tighter_bound(outer, inner, left):
    clock = FakeClock()
    requests = {None: None, 5: 5, 9: 9}
    with (
        scope(deadline=outer, requests=requests[outer], clock=clock),
        scope(deadline=inner, requests=requests[inner], clock=clock) as innermost,
    ):
        assert innermost.remaining() == left
        assert innermost.left() == int(left)


def test_an_inner_scope_spends_from_the_outer_one():
    with scope(requests=3) as outer:
        with scope(requests=5) as inner:
            for left in (2, 1, 0):
                Policy().call(int)
                assert outer.left() == inner.left() == left
            with pytest.raises(steadycall.RequestBudgetSpent):
                Policy().call(int)


def test_an_attempt_sees_a_scope_that_was_opened_within_it():
    clock = FakeClock()

    def work():
        with scope(deadline=2, clock=clock):
            attempt = steadycall.current_attempt()
            return attempt.number, attempt.remaining, attempt.timeout

    policy = Policy(deadline=10, attempt_timeout=7)
    assert policy.bind(clock=clock).call(work) == (1, 2.0, 2.0)


# Where it holds


def left_within():
    layer = steadycall._scope.around()
    return None if layer is None else layer.left()


def test_a_scope_crosses_tasks_and_to_thread_and_not_plain_threads():
    async def main():
        async with scope(requests=4) as account:
            assert await asyncio.create_task(asyncio.to_thread(left_within)) == 4
            assert await asyncio.to_thread(left_within) == 4
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, left_within) is None
            assert await loop.run_in_executor(None, account.carry(left_within)) == 4

    asyncio.run(main())
    seen = []
    with scope(requests=4) as account:
        for target in (left_within, account.carry(left_within)):
            thread = threading.Thread(target=lambda target=target: seen.append(target()))
            thread.start()
            thread.join()
    assert seen == [None, 4]


def test_carry_takes_the_attempt_under_way_along():
    def work(account):
        number = account.carry(lambda: steadycall.current_attempt().number)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(number).result()

    with scope(requests=4) as account:
        assert Policy().call(work, account) == 1


def test_carry_keeps_a_coroutine_function_one():
    async def work():
        await asyncio.sleep(0)
        return left_within()

    with scope(requests=4) as account:
        carried = account.carry(work)
        assert asyncio.iscoroutinefunction(carried)
        assert carried.__name__ == "work"
        result = []
        thread = threading.Thread(target=lambda: result.append(asyncio.run(carried())))
        thread.start()
        thread.join()
    assert result == [4]


def test_an_ended_scope_binds_nobody_who_is_still_in_it():
    async def main():
        go = asyncio.Event()

        async def later():
            await go.wait()
            return [await AT_ONCE.acall(asyncio.sleep, 0, n) for n in range(3)]

        async with scope(requests=1, deadline=60):
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        go.set()
        assert await task == [0, 1, 2]

    asyncio.run(main())
    with scope(requests=1) as account:
        work = account.carry(left_within)
    assert work() is None


def test_a_scope_is_entered_once_and_shows_its_state():
    account = scope(requests=2)
    assert repr(account) == "<scope not entered: remaining=None, requests=2>"
    with account:
        assert repr(account) == "<scope entered: remaining=None, requests=2>"
    assert repr(account) == "<scope ended: remaining=None, requests=None>"
    with pytest.raises(RuntimeError, match="once"), account:
        pass


def test_a_scope_that_an_async_generator_leaves_elsewhere_ends_quietly():
    async def stream():
        with scope(requests=4):
            yield left_within()
            yield left_within()

    async def main():
        opened = stream()
        assert await anext(opened) == 4
        # Closed by another task, in another context: as the collector does it.
        await asyncio.create_task(opened.aclose())
        return left_within()

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong", [{"deadline": 0}, {"deadline": -1}, {"deadline": "4"}, {"requests": 0}, {"requests": 1.5}], ids=repr
)
def test_a_wrong_bound_is_refused(wrong):
    with pytest.raises(ConfigError):
        scope(**wrong)


# What a layer below gave up on


def test_an_error_a_layer_below_gave_up_on_is_final(front):
    operation = ScriptedOperation([ConnectionError()] * 3)
    with pytest.raises(ConnectionError) as caught:
        front.call(AT_ONCE, lambda: AT_ONCE.bind(sleep=ignore).call(operation), sleep=ignore)
    assert operation.remaining == 0
    assert caught.value.__notes__ == [
        "steadycall: Stopped after 3 attempts: all 3 tries are used up.",
        "steadycall: Stopped after 1 attempt: a layer below gave up on it.",
    ]


def test_it_is_final_when_an_sdk_has_wrapped_it(front, server):
    server.answer("*", 503)

    def sdk():
        try:
            steadycall.call(server.url, {}, tries=2, sleep=ignore)
        except steadycall.CallError as error:
            raise ConnectionError("of the SDK") from error

    with pytest.raises(ConnectionError):
        front.call(AT_ONCE, sdk, sleep=ignore)
    assert len(server.requests) == 2


def test_retry_exhausted_makes_it_just_another_failure(front, server):
    server.answer("*", 503)
    with pytest.raises(steadycall.HTTPStatusError):
        front.call(
            AT_ONCE.replace(retry_exhausted=True),
            lambda: steadycall.call(server.url, {}, tries=2, sleep=ignore),
            sleep=ignore,
        )
    assert len(server.requests) == 6


def test_a_failure_below_that_the_function_dealt_with_is_not_final(front):
    failures = iter([ConnectionError("first")])

    def work():
        try:
            AT_ONCE.replace(tries=1).call(ScriptedOperation([TimeoutError()]))
        except TimeoutError:
            pass
        if (error := next(failures, None)) is not None:
            raise error
        return "well"

    assert front.call(AT_ONCE, work, sleep=ignore) == "well"


def test_a_layer_that_ran_into_this_attempts_end_did_not_give_up():
    clock = FakeClock()
    runs = []

    def below():
        runs.append(1)
        if len(runs) == 1:
            clock.advance(6)
        return "well"

    layer = Policy(tries=1).bind(clock=clock)
    policy = Policy(tries=2, attempt_timeout=5, backoff=Backoff.none())
    assert policy.bind(clock=clock, sleep=clock.sleep).call(lambda: layer.call(below)) == "well"
    assert len(runs) == 2
