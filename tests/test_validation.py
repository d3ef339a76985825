"""Validation by rule 7 of the design: what accepts an answer, what has it asked for again, and what ends the call."""

from __future__ import annotations

import asyncio
import json

import pytest

import steadycall
from steadycall import Backoff, FailureKind, Policy, Reject, StopReason
from steadycall.testing import FakeClock, ScriptedOperation

AT_ONCE = Policy(tries=3, backoff=Backoff.none())


def ignore(_seconds):
    """A sleep that does not."""


def raising(error):
    def validate(_answer):
        raise error

    return validate


@pytest.mark.parametrize("accepts", [None, True])
def test_none_and_true_accept_an_answer(front, accepts):
    assert front.call(AT_ONCE, lambda: "answer", validate=lambda _: accepts) == "answer"


@pytest.mark.parametrize("other", [0, "", [], "other", {"a": 1}, 1.5])
def test_any_other_value_takes_the_answers_place(front, other):
    assert front.call(AT_ONCE, lambda: "answer", validate=lambda _: other) == other


def test_a_validator_may_parse_the_answer(front):
    answers = iter(["{", '{"a": 1}'])
    assert front.call(AT_ONCE, lambda: next(answers), validate=json.loads, sleep=ignore) == {"a": 1}


Pydantic = type("ValidationError", (Exception,), {"__module__": "pydantic_core"})


@pytest.mark.parametrize("error", [ValueError("no"), Pydantic("no"), UnicodeError("no")], ids=repr)
def test_a_value_error_or_pydantics_asks_for_another_answer_and_is_raised_at_the_end(front, error):
    runs = []
    with pytest.raises(type(error)) as caught:
        front.call(AT_ONCE, lambda: runs.append(1), validate=raising(error), sleep=ignore)
    assert caught.value is error
    assert len(runs) == 3
    assert caught.value.__notes__ == ["steadycall: Stopped after 3 attempts: all 3 tries are used up."]


def test_false_asks_for_another_answer_and_ends_in_a_response_error(front):
    verdicts = iter([False, False, True])
    assert front.call(AT_ONCE, lambda: "answer", validate=lambda _: next(verdicts), sleep=ignore) == "answer"
    with pytest.raises(steadycall.ResponseError) as caught:
        front.call(AT_ONCE, lambda: "answer", validate=lambda _: False, sleep=ignore)
    assert caught.value.kind == FailureKind.VALIDATION
    assert caught.value.status is None
    assert isinstance(caught.value, ValueError)


def test_a_false_of_numpy_is_false_and_no_answer(front):
    false = type("bool", (), {"__module__": "numpy", "__bool__": lambda _: False})()
    with pytest.raises(steadycall.ResponseError):
        front.call(AT_ONCE, lambda: "answer", validate=lambda _: false, sleep=ignore)


@pytest.mark.parametrize("how", ["raised", "returned", "by the function"])
def test_a_reject_ends_the_call_as_itself(front, how):
    rejected = Reject("another answer would not do")
    runs = []

    def work():
        runs.append(1)
        if how == "by the function":
            raise rejected

    validate = {"raised": raising(rejected), "returned": lambda _: rejected}.get(how)
    with pytest.raises(Reject) as caught:
        front.call(AT_ONCE, work, validate=validate)
    assert caught.value is rejected
    assert rejected.reason == "another answer would not do"
    assert runs == [1]


@pytest.mark.parametrize("error", [TypeError(), KeyError(), ConnectionError()], ids=repr)
def test_a_fault_of_the_validator_itself_is_raised_at_once(front, error):
    runs = []
    with pytest.raises(type(error)):
        front.call(AT_ONCE, lambda: runs.append(1), validate=raising(error))
    assert runs == [1]


def test_a_call_of_the_validators_own_that_gave_up_is_no_verdict_on_the_answer(front):
    gave_up = steadycall.ResponseError(why="not JSON", status=200, stop_reason=StopReason.TRIES)
    assert isinstance(gave_up, ValueError)
    with pytest.raises(steadycall.ResponseError):
        front.call(AT_ONCE, ScriptedOperation(["answer"]), validate=raising(gave_up))


def test_an_answer_in_the_wrong_form_that_the_function_itself_finds_is_asked_for_again(front):
    answers = iter(["{", "[1]"])
    assert front.call(AT_ONCE, lambda: json.loads(next(answers)), sleep=ignore) == [1]


def test_each_validation_try_starts_with_fresh_transport_tries(front):
    script = [ConnectionError(), "bad", ConnectionError(), "bad", ConnectionError(), "good"]
    operation = ScriptedOperation(script)
    policy = Policy(tries=2, validation_tries=3, backoff=Backoff.none())
    assert front.call(policy, operation, validate=lambda answer: answer == "good", sleep=ignore) == "good"
    assert operation.remaining == 0


def test_spent_validation_tries_are_told(front):
    operation = ScriptedOperation(["bad"] * 2)
    with pytest.raises(steadycall.ResponseError, match="2 answers failed their validation") as caught:
        front.call(Policy(tries=5, validation_tries=2), operation, validate=lambda _: False, sleep=ignore)
    assert caught.value.stop_reason == StopReason.VALIDATION


def test_validation_never_restarts_a_transport_policy_that_is_exhausted(front):
    operation = ScriptedOperation(["bad", ConnectionError(), ConnectionError()])
    with pytest.raises(ConnectionError):
        front.call(
            Policy(tries=2, validation_tries=5, backoff=Backoff.none()), operation, validate=bool_of, sleep=ignore
        )
    assert operation.remaining == 0


def bool_of(_answer):
    return False


def test_max_requests_bounds_both_loops(front):
    operation = ScriptedOperation(["bad"] * 4)
    with pytest.raises(steadycall.ResponseError, match="max_requests=4 are used up") as caught:
        front.call(Policy(validation_tries=9, max_requests=4), operation, validate=bool_of, sleep=ignore)
    assert caught.value.stop_reason == StopReason.REQUEST_BUDGET


def test_validation_waits_if_it_is_given_a_backoff(front):
    waits: list[float] = []
    policy = Policy(tries=2, backoff={"validation": Backoff.fixed(3)})
    with pytest.raises(steadycall.ResponseError):
        front.call(policy, lambda: 1, validate=bool_of, sleep=waits.append)
    assert waits == [3.0]


def test_a_late_answer_is_not_validated(front):
    clock = FakeClock()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        front.call(Policy(deadline=5), lambda: clock.advance(6) or "late", validate=raising(KeyError()), clock=clock)
    assert caught.value.late_result == "late"


def test_an_async_validator_is_awaited():
    async def validate(answer):
        return answer.upper()

    async def work():
        return "answer"

    assert asyncio.run(AT_ONCE.bind(validate=validate).acall(work)) == "ANSWER"


def test_an_async_validator_is_cut_by_the_deadline_and_the_answer_kept():
    async def validate(_answer):
        await asyncio.Event().wait()

    async def work():
        return "paid for"

    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        asyncio.run(Policy(deadline=0.02).bind(validate=validate).acall(work))
    assert caught.value.late_result == "paid for"


def test_a_fault_of_the_validators_own_is_not_put_down_to_what_may_be_retried():
    with pytest.raises(ZeroDivisionError) as caught:
        Policy().bind(validate=lambda answer: 1 / 0).call(lambda: "x")
    assert caught.value.__notes__ == ["steadycall: Stopped after 1 attempt: a retry cannot fix it."]
