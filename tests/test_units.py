"""Units of work: what is called for again, what is saved, what stops the others, and what one costs."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import steadycall
from steadycall import Backoff, FailureKind, Policy, Reject, StopReason, UnitGroup, UnitOutcome, scope
from steadycall.testing import Answer, FakeClock, FakeServer, ScriptedOperation, answers

AT_ONCE = Policy(tries=3, backoff=Backoff.none())


def ignore(_seconds):
    """A sleep that does not."""


def group(policy=AT_ONCE, runtime_limit=3600, call_limit=600, max_requests_per_unit=6, **options):
    return UnitGroup(policy, runtime_limit, call_limit, max_requests_per_unit, **{"sleep": ignore, **options})


class Lesson:
    """What a service wants generated, and what happens to it."""

    def __init__(self):
        self.saved = []
        self.lives = True
        self.asked = 0

    def save(self, text):
        self.saved.append(text)
        return f"row {len(self.saved)}"

    def alive(self):
        self.asked += 1
        return self.lives


@pytest.fixture
def lesson():
    return Lesson()


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture(params=["run", "arun"])
def run(request):
    """One unit, by either front; the callables are plain ones, and coroutine functions for ``arun``."""
    if request.param == "run":
        return lambda group, **given: group.run(**given)

    def arun(group, **given):
        return asyncio.run(group.arun(**{name: made_async(value) for name, value in given.items()}))

    return arun


def made_async(fn):
    if not callable(fn) or inspect.iscoroutinefunction(fn):
        return fn

    async def run(*args):
        await asyncio.sleep(0)
        return fn(*args)

    return run


class Gone(Exception):
    """The caller's word that the target was deleted."""


# A good unit


def test_a_unit_calls_validates_and_saves(run, lesson):
    seen = []
    one = group(on_unit=seen.append)
    model = ScriptedOperation(['{"text": "Hi."}'])
    result = run(one, call=model, validate=json.loads, save=lesson.save, alive=lesson.alive, name="lesson 1")
    assert lesson.saved == [{"text": "Hi."}]
    assert lesson.asked == 1
    assert (result.outcome, result.cause, result.error) == (UnitOutcome.SAVED, None, None)
    assert (result.answer, result.saved, result.requests) == ({"text": "Hi."}, "row 1", 1)
    assert seen == [result.record]
    assert seen[0].name == "lesson 1"
    assert seen[0].kind is seen[0].stop_reason is None


def test_a_unit_needs_neither_a_validator_nor_a_target(run, lesson):
    assert run(group(), call=lambda: "Hi.", save=lesson.save).outcome == "saved"
    assert lesson.saved == ["Hi."]


@pytest.mark.parametrize("empty", [None, "", " \n", b"", [], {}, ()], ids=repr)
def test_an_answer_with_nothing_in_it_is_called_for_once_more_and_not_saved(run, lesson, empty):
    model = ScriptedOperation([empty, empty, "never asked"])
    result = run(group(), call=model, save=lesson.save)
    assert (result.outcome, result.requests, lesson.saved) == ("format_failed", 2, [])
    assert str(result.error) == "the answer is empty"


@pytest.mark.parametrize("answer", [0, False, 0.0])
def test_a_number_is_never_empty(run, lesson, answer):
    assert run(group(), call=lambda: answer, save=lesson.save).outcome == "saved"


def test_a_validator_may_accept_an_answer_with_nothing_in_it(run, lesson):
    assert run(group(), call=lambda: "", validate=lambda _: True, save=lesson.save).outcome == "saved"
    assert lesson.saved == [""]


def test_an_error_of_a_call_in_a_stopped_group_says_what_stopped_it(run, lesson, server):
    one = group()

    def call():
        one.stop("the user closed the course")
        return steadycall.call(server.url, {})

    result = run(one, call=call, save=lesson.save)
    assert result.outcome == "stopped"
    assert result.error.__notes__[-1].startswith("The group was stopped: the user closed the course.")


@pytest.mark.parametrize("why", [None, "", " ", 3, ValueError("x")], ids=repr)
def test_a_group_is_stopped_with_a_text_that_says_why(why):
    one = group()
    with pytest.raises(steadycall.ConfigError, match="why must be a text"):
        one.stop(why)
    assert not one.stopped


def test_a_bound_policy_lends_its_validator_and_its_hooks(run, lesson):
    ends, retries = [], []
    bound = AT_ONCE.bind(validate=str.upper, on_end=ends.append, on_retry=retries.append)
    model = ScriptedOperation([ConnectionError(), "hi"])
    run(group(bound), call=model, save=lesson.save)
    run(group(bound), call=lambda: "hi", save=lesson.save, validate=str.title)
    assert lesson.saved == ["HI", "Hi"]
    assert len(ends) == 2
    assert len(retries) == 1


# What is called for again


def test_three_transport_tries_inside_two_format_tries_are_six_requests_at_most(run, lesson):
    script = [ConnectionError(), ConnectionError(), "bad", ConnectionError(), ConnectionError(), "bad"]
    model = ScriptedOperation(script)
    result = run(group(), call=model, validate=json.loads, save=lesson.save)
    assert result.outcome == "format_failed"
    assert isinstance(result.error, json.JSONDecodeError)
    assert result.requests == len(model.calls) == 6
    assert lesson.saved == []


def test_a_transport_that_is_exhausted_is_not_started_again(run, lesson):
    model = ScriptedOperation(["bad", ConnectionError("1"), ConnectionError("2"), ConnectionError("3")])
    result = run(group(), call=model, validate=json.loads, save=lesson.save)
    assert result.outcome == "transport_exhausted"
    assert str(result.error) == "3"
    assert result.record.stop_reason == StopReason.TRIES
    assert result.requests == 4


def bad_form():
    return json.loads("{")


NO_ANSWERS = {
    "no JSON": Answer(body="Here is your JSON: {", headers={"Content-Type": "application/json"}),
    "cut short": Answer(body='{"text": "Hi', headers={"Content-Type": "application/json"}),
    "empty": Answer(body="", headers={"Content-Type": "application/json"}),
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_an_http_answer_in_the_wrong_form_is_called_for_once_more_and_no_more(run, lesson, server, answer):
    server.answer("*", answer)
    call = {"tries": 1, "sleep": ignore}
    result = run(group(), call=lambda: steadycall.call(server.url, {}, **call), save=lesson.save)
    assert result.outcome == "format_failed"
    assert isinstance(result.error, steadycall.ResponseError)
    assert len(server.requests) == result.requests == 2


def test_the_second_answer_may_be_better(run, lesson, server):
    server.answer("*", NO_ANSWERS["cut short"], answers.openai.ok("Hi."))
    call = {"tries": 1, "sleep": ignore}
    result = run(group(), call=lambda: steadycall.call(server.url, {}, **call), save=lesson.save)
    assert result.outcome == "saved"
    assert lesson.saved[0]["choices"][0]["message"]["content"] == "Hi."


def test_a_call_below_that_gave_up_on_its_transport_is_final(run, lesson, server):
    server.answer("*", 503)
    result = run(group(), call=lambda: steadycall.call(server.url, {}, tries=3, sleep=ignore), save=lesson.save)
    assert result.outcome == "transport_exhausted"
    assert result.record.stop_reason == StopReason.TRIES
    assert len(server.requests) == result.requests == 3


def test_validation_tries_of_the_policy_are_the_format_tries(run, lesson):
    model = ScriptedOperation(["bad"] * 4)
    result = run(group(AT_ONCE.replace(validation_tries=4)), call=model, validate=json.loads, save=lesson.save)
    assert (result.outcome, result.requests) == ("format_failed", 4)


@pytest.mark.parametrize(
    "error", [TypeError("code"), Reject("the model refuses"), PermissionError("no"), RuntimeError("unknown")], ids=repr
)
def test_what_no_other_answer_mends_is_called_for_once(run, lesson, error):
    model = ScriptedOperation([error])
    result = run(group(), call=model, save=lesson.save)
    assert (result.outcome, result.error, result.requests) == ("permanent", error, 1)


def test_a_rejected_answer_is_permanent(run, lesson):
    result = run(group(), call=lambda: "no", validate=lambda _: Reject("the model refuses"), save=lesson.save)
    assert (result.outcome, result.requests) == ("permanent", 1)
    assert lesson.saved == []


@pytest.mark.parametrize("step", [answers.openai.bad_request(), answers.openai.insufficient_quota(), 401], ids=str)
def test_an_http_error_that_no_retry_can_fix_is_permanent(run, lesson, server, step):
    server.answer("*", step)
    result = run(group(), call=lambda: steadycall.call(server.url, {}), save=lesson.save)
    assert (result.outcome, result.record.kind) == ("permanent", FailureKind.PERMANENT)
    assert len(server.requests) == 1


# Requests


def test_a_unit_makes_no_more_requests_than_it_may(run, lesson, server):
    server.answer("*", 503)
    one = group(Policy(tries=9, backoff=Backoff.none()), max_requests_per_unit=4)
    result = run(one, call=lambda: steadycall.call(server.url, {}, tries=9, sleep=ignore), save=lesson.save)
    assert (result.outcome, result.requests) == ("budget_exhausted", 4)
    assert isinstance(result.error, steadycall.HTTPStatusError)
    assert len(server.requests) == 4


def test_a_second_answer_that_the_budget_does_not_allow_is_not_asked_for(run, lesson):
    result = run(group(max_requests_per_unit=1), call=bad_form, save=lesson.save)
    assert (result.outcome, result.requests) == ("budget_exhausted", 1)
    assert (result.record.kind, result.record.stop_reason) == (FailureKind.VALIDATION, StopReason.REQUEST_BUDGET)
    assert result.cause.startswith("The requests of the unit, or of a scope around it, are used up. Before that: ")


def test_every_unit_has_a_budget_of_its_own_within_the_scope_around_it(lesson):
    one = group(max_requests_per_unit=2)
    with scope(requests=3):
        ends = [one.run(call=bad_form, save=lesson.save) for _ in range(3)]
    assert [end.requests for end in ends] == [2, 1, 0]
    assert [end.outcome for end in ends] == ["format_failed", "budget_exhausted", "budget_exhausted"]


def test_a_layer_below_that_spent_the_budget_with_an_exception_of_the_callers_own(run, lesson):
    model = ScriptedOperation([ConnectionError()] * 2)
    inner = Policy(tries=5, backoff=Backoff.none()).bind(sleep=ignore)
    result = run(group(max_requests_per_unit=2), call=lambda: inner.call(model), save=lesson.save)
    assert (result.outcome, result.requests) == ("budget_exhausted", 2)


def test_tokens_and_seconds_of_all_calls_are_told(run, lesson):
    clock = FakeClock()
    seen = []

    def answer(text, seconds):
        def step():
            clock.advance(seconds)
            return {"text": text, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}

        return step

    model = ScriptedOperation([answer("bad", 30), ConnectionError(), answer("good", 40)])
    one = group(AT_ONCE.replace(backoff=Backoff.fixed(2)), clock=clock, sleep=clock.sleep, on_unit=seen.append)
    run(one, call=model, validate=lambda answer: answer["text"] == "good", save=lambda _: clock.advance(500))
    assert seen[0].requests == 3
    assert seen[0].call_seconds == 72.0  # without the saving
    assert seen[0].usage == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}


def test_what_a_unit_did_not_end_well_with_is_told_once_and_without_prompt_or_answer(run, lesson, caplog):
    seen = []
    with caplog.at_level("INFO", "steadycall"):
        result = run(
            group(on_unit=seen.append),
            call=lambda: "SECRET",
            validate=json.loads,
            save=lesson.save,
            name="card 7",
        )
    assert [record.outcome for record in seen] == ["format_failed"]
    assert "SECRET" not in repr(result) + repr(seen) + caplog.text
    assert "unit_settled card 7: format_failed after 2 requests" in caplog.text


def test_an_observer_that_fails_changes_nothing(run, lesson):
    def on_unit(_record):
        raise KeyError("metrics")

    assert run(group(on_unit=on_unit), call=lambda: "Hi.", save=lesson.save).outcome == "saved"


# Saving


def test_a_failed_save_keeps_the_answer_and_never_calls_the_model_again(run):
    model = ScriptedOperation(["an answer that was paid for"])
    fault = ConnectionError("the database is away")

    def save(_answer):
        raise fault

    result = run(group(), call=model, save=save)
    assert (result.outcome, result.error) == ("save_failed", fault)
    assert result.answer == "an answer that was paid for"
    assert result.saved is None
    assert len(model.calls) == 1


def test_a_save_that_fails_by_a_rate_limit_stops_nobody(run, lesson, server):
    server.answer("*", answers.openai.rate_limited(2000))
    one = group()
    result = run(one, call=lambda: "Hi.", save=lambda _: steadycall.call(server.url, {}))
    assert result.outcome == "save_failed"
    assert not one.stopped


def test_a_save_may_make_requests_of_its_own_without_the_units_budget(run, lesson, server):
    server.answer("*", 503, Answer(json={"ok": True}))
    save = {"tries": 3, "sleep": ignore}
    one = group(max_requests_per_unit=1)
    result = run(one, call=lambda: "Hi.", save=lambda text: steadycall.call(server.url, {"text": text}, **save))
    assert (result.outcome, result.saved, result.requests) == ("saved", {"ok": True}, 1)


def test_an_answer_is_saved_only_while_its_target_lives(run, lesson):
    lesson.lives = False
    result = run(group(), call=lambda: "Hi.", save=lesson.save, alive=lesson.alive)
    assert (result.outcome, result.answer, result.error) == ("target_gone", None, None)
    assert lesson.saved == []


def test_a_target_that_cannot_be_asked_for_is_a_failed_save(run, lesson):
    def alive():
        raise ConnectionError("the database is away")

    result = run(group(), call=lambda: "Hi.", save=lesson.save, alive=alive)
    assert (result.outcome, result.answer) == ("save_failed", "Hi.")
    assert result.cause.startswith("alive failed: ConnectionError")
    assert lesson.saved == []


def test_the_stop_flag_is_looked_at_before_the_target_and_after_it(run, lesson):
    one = group()

    def stopping():
        one.stop("the user closed the course")
        return "late"

    assert run(one, call=stopping, save=lesson.save, alive=lesson.alive).outcome == "stopped"
    assert lesson.asked == 0
    two = group()
    result = run(two, call=lambda: "late", save=lesson.save, alive=lambda: two.stop() or True)
    assert result.outcome == "stopped"
    assert lesson.saved == []


# Stopping the others


def test_a_unit_that_ended_by_a_rate_limit_stops_those_that_did_not_begin(run, lesson, server):
    server.answer("*", answers.openai.rate_limited(2000))
    one = group()
    first = run(one, call=lambda: steadycall.call(server.url, {}), save=lesson.save)
    assert (first.outcome, first.record.stop_reason) == ("transport_exhausted", StopReason.HINT_TOO_LONG)
    assert one.stopped
    assert one.stop_cause == f"Another unit ended: {first.error.failure.reason}"
    second = run(one, call=ScriptedOperation([]), save=lesson.save)
    assert (second.outcome, second.requests, second.call_seconds) == ("stopped", 0, 0.0)
    assert second.cause == f"The group was stopped: {one.stop_cause}"
    assert len(server.requests) == 1
    assert one.remaining() == 0.0


def test_a_rate_limit_that_a_retry_gets_past_stops_nobody(run, lesson, server):
    server.answer("*", answers.openai.rate_limited(2), answers.openai.ok("Hi."))
    one = group()
    assert run(one, call=lambda: steadycall.call(server.url, {}, sleep=ignore), save=lesson.save).outcome == "saved"
    assert not one.stopped


def test_a_rate_limit_is_why_a_unit_ended_whatever_it_ran_into_next(run, lesson, server):
    server.answer("*", answers.openai.rate_limited(2))
    one = group(max_requests_per_unit=2)
    result = run(one, call=lambda: steadycall.call(server.url, {}, sleep=ignore), save=lesson.save)
    assert (result.outcome, result.record.kind) == ("budget_exhausted", FailureKind.RATE_LIMITED)
    assert one.stopped


CircuitBreakerError = type("CircuitBreakerError", (Exception,), {"__module__": "pybreaker"})


@pytest.mark.parametrize(
    "error",
    [
        CircuitBreakerError(),
        steadycall.Refused(why="The circuit is open.", stop_reason=StopReason.BREAKER_OPEN),
    ],
    ids=repr,
)
def test_an_open_breaker_stops_the_group_whoevers_it_is(run, lesson, error):
    one = group(AT_ONCE.replace(tries=1))
    assert run(one, call=ScriptedOperation([error]), save=lesson.save).outcome == "transport_exhausted"
    assert one.stopped


def test_what_stops_a_group_is_the_callers_choice(run, lesson, server):
    server.answer("*", 401)
    one = group(stop_on={FailureKind.PERMANENT})
    run(one, call=lambda: steadycall.call(server.url, {}), save=lesson.save)
    assert one.stopped
    server.answer("*", answers.openai.rate_limited(2000))
    other = group(stop_on=())
    run(other, call=lambda: steadycall.call(server.url, {}), save=lesson.save)
    assert not other.stopped


def test_a_format_failure_that_is_called_for_again_did_not_end_the_unit(run, lesson):
    one = group(stop_on=[FailureKind.VALIDATION])
    model = ScriptedOperation(["bad", "{}"])
    assert run(one, call=model, validate=json.loads, save=lesson.save).outcome == "saved"
    assert not one.stopped
    assert run(one, call=lambda: "bad", validate=json.loads, save=lesson.save).outcome == "format_failed"
    assert one.stopped


def test_the_others_discard_their_late_answers_and_retry_no_more(lesson):
    """Four threads: one runs into the rate limit while the others wait for their answers or their retries."""
    one = group(Policy(tries=3, backoff=Backoff.fixed(50)), sleep=lambda _: pytest.fail("a stopped unit waited"))
    begun = threading.Barrier(4)
    limited = steadycall.CallError(
        why="429",
        failure=steadycall.classify(status=429),
        kind=FailureKind.RATE_LIMITED,
        stop_reason=StopReason.TRIES,
    )

    def first():
        begun.wait()
        raise limited

    def late(outcome):
        def call():
            begun.wait()
            stopped.wait()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return call

    stopped = threading.Event()
    calls = [first, late("late"), late(ConnectionError()), late("bad")]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(one.run, call=call, validate=on_bad, save=lesson.save) for call in calls]
        assert futures[0].result().outcome == "transport_exhausted"
        stopped.set()
        results = [future.result() for future in futures[1:]]
    assert [result.outcome for result in results] == ["stopped"] * 3
    assert [result.requests for result in results] == [1, 1, 1]
    assert lesson.saved == []


def on_bad(answer):
    return answer != "bad"


def test_tasks_discard_their_late_answers_too(lesson, server):
    server.answer("/limited", answers.openai.rate_limited(2000))
    server.answer("/good", answers.openai.ok())

    async def main():
        one = group()
        limited, may_end = asyncio.Event(), asyncio.Event()

        async def first():
            await limited.wait()
            return await steadycall.acall(server.url_for("/limited"), {})

        async def other():
            answer = await steadycall.acall(server.url_for("/good"), {})
            limited.set()
            await may_end.wait()
            return answer

        async with asyncio.TaskGroup() as tasks:
            ended = tasks.create_task(one.arun(call=first, save=lesson.save))
            late = tasks.create_task(one.arun(call=other, save=lesson.save))
            await ended
            may_end.set()
        after = await one.arun(call=other, save=lesson.save)
        return ended.result(), late.result(), after

    ended, late, after = asyncio.run(main())
    assert (ended.outcome, late.outcome, after.outcome) == ("transport_exhausted", "stopped", "stopped")
    assert (late.requests, after.requests) == (1, 0)
    assert late.usage["total_tokens"] > 0  # it was paid for
    assert lesson.saved == []


def test_many_threads_run_units_of_one_group_and_each_request_is_counted_once(server):
    turns = iter(range(1000))

    def provider(_request):
        turn = next(turns)
        return 503 if turn % 3 == 0 else answers.openai.ok("bad" if turn % 5 == 0 else "good")

    server.answer("*", provider)
    told, kept, late = [], [], []
    one = group(Policy(tries=2, backoff=Backoff.none()), max_requests_per_unit=3, on_unit=told.append)

    def unit(number):
        def call():
            if number == 40:
                one.stop("enough")
            return steadycall.call(server.url, {}, tries=2, sleep=ignore)

        if one.stopped:
            late.append(number)
        return one.run(
            call=call,
            validate=lambda answer: answer["choices"][0]["message"]["content"] == "good",
            save=lambda answer: kept.append(number),
            name=str(number),
        )

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(unit, range(60)))
    assert sorted(record.name for record in told) == sorted(map(str, range(60)))
    assert sum(result.requests for result in results) == len(server.requests)
    assert all(result.requests <= 3 for result in results)
    assert sorted(kept) == [number for number, result in enumerate(results) if result.outcome == "saved"]
    assert {(results[number].outcome, results[number].requests) for number in late} == {("stopped", 0)}


def test_the_first_reason_of_a_stop_stays():
    one = group()
    assert one.stop_cause is None
    one.stop("first")
    one.stop("second")
    assert (one.stopped, one.stop_cause) == (True, "first")
    assert repr(one) == "<UnitGroup stopped: first>"


# What is raised


@pytest.mark.parametrize("where", ["call", "validate", "save", "alive"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_callers_word_that_the_target_is_gone_is_raised_as_itself(run, lesson, where, wrapped):
    gone = Gone("lesson 7 was deleted")
    calls, seen = [], []

    def deleted(*_):
        if not wrapped:
            raise gone
        try:
            raise gone
        except Gone as error:
            raise ConnectionError("while talking to the database") from error

    given = {"call": lambda: "Hi.", "save": lesson.save, "validate": lambda _: True, "alive": lesson.alive}
    given[where] = deleted
    call = given["call"]
    given["call"] = lambda: calls.append(1) or call()
    with pytest.raises(Gone) as caught:
        run(group(gone=Gone, on_unit=seen.append), **given)
    assert caught.value is gone
    assert [record.outcome for record in seen] == ["target_gone"]
    assert seen[0].cause == "Gone says that the target is gone."
    assert seen[0].requests == len(calls) == 1
    assert lesson.saved == []


def test_a_word_that_the_policy_would_retry_ends_the_unit_as_well(run, lesson):
    class Lost(ConnectionError):
        pass

    model = ScriptedOperation([Lost()])
    retry_if = {"retry_if": lambda failure, error: True}
    with pytest.raises(Lost):
        run(group(AT_ONCE.replace(**retry_if), gone=(Lost, Gone)), call=model, save=lesson.save)
    assert model.remaining == 0


@pytest.mark.parametrize("gone", [(), Gone])
def test_the_policys_own_rule_holds_beside_it(run, lesson, gone):
    model = ScriptedOperation([ConnectionError("not worth it")])
    policy = AT_ONCE.replace(retry_if=lambda failure, error: False)
    assert run(group(policy, gone=gone), call=model, save=lesson.save).outcome == "permanent"
    other = ScriptedOperation([RuntimeError("worth it"), "Hi."])
    policy = AT_ONCE.replace(retry_if=lambda failure, error: steadycall.classify(status=503))
    assert run(group(policy, gone=gone), call=other, save=lesson.save).outcome == "saved"


@pytest.mark.parametrize("where", ["call", "save", "alive"])
@pytest.mark.parametrize("wish", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_wish_to_stop_is_raised_as_itself_wherever_it_stands_and_the_unit_is_told(lesson, where, wish):
    seen = []

    def wished(*_):
        try:
            raise wish
        except BaseException as error:
            raise RuntimeError("wrapped") from error

    given = {"call": lambda: "Hi.", "save": lesson.save, "alive": lesson.alive, where: wished}
    with pytest.raises(wish):
        group(on_unit=seen.append).run(**given)
    assert [(record.outcome, record.cause) for record in seen] == [("stopped", f"{wish.__name__} ended it.")]


@pytest.mark.parametrize("where", ["call", "save", "alive"])
def test_a_cancelled_task_is_cancelled_and_its_cost_is_told(lesson, where):
    seen = []

    async def main():
        begun = asyncio.Event()

        async def forever(*_):
            begun.set()
            await asyncio.Event().wait()

        given = {"call": made_async(lambda: "Hi."), "save": lesson.save, "alive": lesson.alive, where: forever}
        task = asyncio.create_task(group(on_unit=seen.append).arun(**given))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [(record.outcome, record.requests) for record in seen] == [("stopped", 1)]
    assert lesson.saved == []


@pytest.mark.parametrize("where", ["call", "save"])
def test_a_cancellation_that_was_wrapped_is_one_only_if_somebody_wants_it(lesson, where):
    async def wraps(*_):
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise RuntimeError("wrapped") from error

    async def cuts_itself(*_):
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError as error:
            raise RuntimeError("wrapped") from error

    async def main():
        nonlocal begun
        begun = asyncio.Event()
        task = asyncio.create_task(group().arun(**{**given, where: wraps}))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await group().arun(**{**given, where: cuts_itself})

    begun = None
    given = {"call": made_async(lambda: "Hi."), "save": lesson.save}
    assert asyncio.run(main()).outcome == {"call": "permanent", "save": "save_failed"}[where]


def test_a_unit_that_runs_while_an_error_is_handled_does_not_take_it_for_its_own(lesson):
    def broken(_):
        raise ValueError("disk")

    try:
        raise Gone
    except Gone:
        result = group(gone=Gone).run(call=lambda: "Hi.", save=broken)
    assert result.outcome == "save_failed"


# What makes no sense


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"policy": 3}, "policy"),
        ({"runtime_limit": 0}, "runtime_limit"),
        ({"runtime_limit": 600}, "call_limit"),
        ({"call_limit": "10 min"}, "call_limit"),
        ({"max_requests_per_unit": 0}, "max_requests_per_unit"),
        ({"stop_on": {"some"}}, "stop_on"),
        ({"stop_on": 429}, "stop_on"),
        ({"gone": KeyboardInterrupt}, "gone"),
        ({"gone": Gone()}, "gone"),
        ({"on_unit": 3}, "on_unit"),
        ({"clock": 3}, "clock"),
    ],
    ids=repr,
)
def test_a_wrong_value_is_refused_when_the_group_is_made(wrong, field):
    with pytest.raises(steadycall.ConfigError) as caught:
        group(**wrong)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["call", "save", "validate", "alive"])
def test_what_must_be_awaited_is_refused_by_run_before_anything_is_called(field):
    model = ScriptedOperation([])
    given = {"call": model, "save": print}
    given[field] = made_async(lambda *_: "Hi.")
    with pytest.raises(steadycall.ConfigError) as caught:
        group().run(**given)
    assert caught.value.field == field
    with pytest.raises(steadycall.ConfigError):
        group().run(**{"call": model, "save": print, field: 3})


def test_a_coroutine_that_comes_as_a_surprise_loses_no_answer():
    def save(answer):
        return made_async(print)(answer)

    result = group().run(call=lambda: "Hi.", save=save)
    assert (result.outcome, result.answer) == ("save_failed", "Hi.")
    assert isinstance(result.error, steadycall.ConfigError)


def test_a_call_for_the_other_front_is_refused_when_it_shows():
    asked = []
    with pytest.raises(steadycall.ConfigError, match=r"call must be a coroutine function .a plain one needs run."):
        asyncio.run(group().arun(call=lambda: asked.append(1) or "text", save=print))
    assert asked == [1]
    with pytest.raises(
        steadycall.ConfigError, match=r"call must be a plain callable .a coroutine function needs arun."
    ):
        group().run(call=lambda: made_async(print)(1), save=print)


@pytest.mark.parametrize("where", ["call", "save"])
@pytest.mark.parametrize("awaits", [False, True])
def test_an_error_on_a_result_is_freed_with_it(where, awaits):
    class Fault(Exception):
        pass

    def fails(*_):
        raise Fault

    async def main():
        given = {"call": lambda: 1, "save": print, where: fails}
        if awaits:
            given["call"] = made_async(given["call"])
        return weakref.ref((await group().arun(**given) if awaits else group().run(**given)).error)

    async def freed():
        gc.collect()
        gc.disable()
        try:
            return (await main())() is None
        finally:
            gc.enable()

    assert asyncio.run(freed())


def test_a_sleep_that_must_be_awaited_is_refused_by_run():
    with pytest.raises(steadycall.ConfigError) as caught:
        group(sleep=asyncio.sleep).run(call=ScriptedOperation([]), save=print)
    assert caught.value.field == "sleep"


def test_one_member_of_stop_on_need_not_stand_in_a_set():
    assert group(stop_on="permanent")._terms.stop_on == {"permanent"}
