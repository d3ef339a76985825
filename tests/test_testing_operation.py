"""ScriptedOperation: a function that plays a script."""

import asyncio
import inspect
import threading

import pytest

from steadycall.testing import ScriptedOperation


def test_values_are_returned_in_order() -> None:
    operation = ScriptedOperation(["first", None])
    assert [operation(), operation()] == ["first", None]


def test_exceptions_are_raised_whether_instances_or_classes() -> None:
    error = TimeoutError("slow")
    operation = ScriptedOperation([error, KeyError, "done"])
    with pytest.raises(TimeoutError) as caught:
        operation()
    assert caught.value is error
    with pytest.raises(KeyError):
        operation()
    assert operation() == "done"


def test_a_cancellation_is_raised_like_any_exception() -> None:
    with pytest.raises(asyncio.CancelledError):
        ScriptedOperation([asyncio.CancelledError])()


def test_callables_are_called_with_the_arguments_of_the_run() -> None:
    operation = ScriptedOperation([lambda a, *, b: a + b])
    assert operation(1, b=2) == 3


def test_the_arguments_of_every_run_are_recorded_failed_ones_too() -> None:
    operation = ScriptedOperation([ValueError, 1])
    with pytest.raises(ValueError):
        operation("a", key="b")
    operation()
    assert operation.calls == [(("a",), {"key": "b"}), ((), {})]
    assert operation.calls[0].kwargs == {"key": "b"}


def test_a_run_beyond_the_script_is_an_assertion_error_that_counts() -> None:
    operation = ScriptedOperation([1])
    operation()
    with pytest.raises(AssertionError, match="call 2 of an operation whose script has 1 steps"):
        operation()


def test_remaining_tells_how_many_steps_were_not_played() -> None:
    operation = ScriptedOperation([1, 2])
    assert operation.remaining == 2
    operation()
    assert operation.remaining == 1


def test_the_coroutine_twin_plays_the_same_script() -> None:
    async def answer(value: int) -> int:
        return value

    operation = ScriptedOperation([1, ConnectionError, answer, lambda value: -value])

    async def main() -> None:
        assert await operation.acall() == 1
        with pytest.raises(ConnectionError):
            await operation.acall()
        assert await operation.acall(5) == 5
        assert await operation.acall(5) == -5

    asyncio.run(main())
    assert len(operation.calls) == 4
    assert inspect.iscoroutinefunction(operation.acall)


def test_no_step_is_played_twice_when_threads_run_at_once() -> None:
    operation = ScriptedOperation(range(2000))
    played: list[int] = []

    def work() -> None:
        for _ in range(500):
            played.append(operation())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(played) == list(range(2000))


def test_an_operation_has_a_name_for_what_wraps_it() -> None:
    assert ScriptedOperation([]).__name__ == "scripted_operation"
