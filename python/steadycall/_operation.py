"""The two fronts for wrapped functions, one sync and one async: they run, wait and validate; the core decides.

Both are the same loop. What differs is what only one of them can do: the async one is cut by a timer, the sync one
cannot be cut and is told ``timeout`` instead.
"""

from __future__ import annotations

import time
from sys import exception, modules
from types import CoroutineType

from . import _usage, _watch
from ._chain import is_control_flow
from ._errors import AttemptTimeout, ConfigError, DeadlineExceeded, RequestBudgetSpent, ResponseError
from ._function import (
    UNFINISHED,
    awaitable,
    awaited,
    name_of,
    note,
    raise_as_it_is,
    refuse_unfinished,
    request_id_of,
)
from ._hooks import check_sleep, default_asleep, default_sleep, draws
from ._judge import Invalid, judge_failure, judge_validator, verdict
from ._kinds import StopReason
from ._loop import Timer, running_loop, timed_out
from ._native import Run, Starter, callback, failure
from ._scope import HERE, leave
from ._time import read_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, ParamSpec, TypeVar

    from ._policy import Policy
    from ._records import Failure

    P = ParamSpec("P")
    T = TypeVar("T")


class BoundPolicy:
    """A policy and what its calls are lent: made by ``Policy.bind``."""

    __slots__ = (
        *("_awaits", "_draw", "_now", "_on_end", "_on_retry", "_plain", "_rng"),
        *("_sleep", "_starter", "_validate", "policy"),
    )

    policy: Policy
    """How failures are retried."""

    def __init__(
        self,
        policy: Policy,
        validate: Callable[[Any], Any] | None = None,
        sleep: Any = None,
        clock: Any = None,
        rng: Any = None,
        on_retry: Any = None,
        on_end: Any = None,
    ) -> None:
        if validate is not None and not callable(validate):
            raise ConfigError("validate", repr(validate), "a callable that takes the answer, or None")
        if sleep is not None:
            check_sleep(sleep, may_be_awaited=True)
        self.policy = policy
        self._validate = validate
        self._sleep = sleep
        self._now = None if clock is None else read_clock(clock)
        self._rng = rng
        self._draw = None if rng is None else draws(rng)
        self._starter = Starter(policy._checked, self._now, self._draw)
        self._on_retry = callback("on_retry", on_retry)
        self._on_end = callback("on_end", on_end)
        # What needs `acall`, if anything does.
        self._awaits = next(
            (name for name, given in (("sleep", sleep), ("validate", validate)) if awaited(given)), None
        )
        # Nothing limits an attempt, and nothing is left to do with an answer: see `retry`.
        limits = (policy.deadline, policy.attempt_timeout, policy.max_requests)
        self._plain = validate is None and on_end is None and limits == (None, None, None)

    def hooks(self) -> dict[str, Any]:
        """What ``Policy.bind`` was given, to bind another policy with."""
        return {
            "validate": self._validate,
            "sleep": self._sleep,
            "clock": self._now,
            "rng": self._rng,
            "on_retry": self._on_retry,
            "on_end": self._on_end,
        }

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn(*args, **kwargs)`` until it succeeds or the policy gives up; see ``Policy.call``."""
        if self._awaits is not None:
            self.require_plain()
        return self._run(fn, args, kwargs)  # type: ignore[no-any-return]  # what fn gives, or what its validator does

    async def acall(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``call``, for a coroutine function; see ``Policy.acall``."""
        return await self._arun(fn, args, kwargs)  # type: ignore[no-any-return]  # as above

    def _run(self, fn: Any, args: Any, kwargs: Any, run: Run | None = None, error: Any = None) -> Any:
        """The loop; from its start, or from the first failure of a ``run`` that had nothing around it."""
        outer = HERE.get()
        if run is None:
            run = self._starter.within(outer)
        token = HERE.set(run)
        usage: dict[str, int] | None = None
        last: Any = None
        ending: Any = None
        try:
            while error is not None or run.begin():
                checking = False
                try:
                    if error is None:
                        answer = fn(*args, **kwargs)
                        if answer.__class__ in UNFINISHED:
                            refuse_unfinished(fn, answer)
                        if self._on_end is not None:
                            usage = _usage.add(usage, answer)
                        if self._validate is not None and run.deadline_left != 0.0:
                            checking = True
                            answer = verdict(answer, self._finished(self._validate(answer)))
                except (Exception, BaseExceptionGroup) as raised:
                    error = raised
                if error is None:
                    good = run.answered()
                    return answer if good and self._on_end is None else self.settled(run, good, answer, fn, usage)
                # Out of the `except` block, so that nothing which is raised from here on has this failure as context.
                wait, ending = self.failed(run, error, outer, checking, name_of(fn), usage)
                if wait is None:
                    raise_as_it_is(ending)
                last, error = error, None
                self.pause(run, wait)
            ending = self.ended(run, last, name_of(fn), usage)
            raise_as_it_is(ending)
        finally:
            error = last = ending = outer = None  # an error holds this frame, which must not hold it
            leave(token)
            run.end()

    async def _arun(self, fn: Any, args: Any, kwargs: Any, run: Run | None = None, error: Any = None) -> Any:
        if "trio" in modules:
            running_loop()  # refuses it
        outer = HERE.get()
        if run is None:
            run = self._starter.within(outer)
        token = HERE.set(run)
        timer: Timer | None = None
        usage: dict[str, int] | None = None
        last: Any = None
        ending: Any = None
        try:
            while error is not None or run.begin():
                checking = cut = False
                try:
                    if error is None:
                        timer = None if (limit := run.timeout) is None else self.timer(limit)
                        answer = await awaitable(fn, fn(*args, **kwargs))
                        if timer is not None:
                            timer.stop()
                        if self._on_end is not None:
                            usage = _usage.add(usage, answer)
                        if self._validate is not None and (left := run.deadline_left) != 0.0:
                            checking = True
                            given = self._validate(answer)
                            if hasattr(given, "__await__"):
                                timer = None if left is None else self.timer(left)
                                given = await given
                                if timer is not None:
                                    timer.stop()
                            answer = verdict(answer, given)
                except BaseException as raised:
                    cut = timer is not None and timer.stop(raised)
                    if not cut and is_control_flow(raised):
                        raise
                    error = timed_out(raised) if cut else raised
                if error is None or (cut and checking):
                    good = run.answered(late=cut)
                    return answer if good and self._on_end is None else self.settled(run, good, answer, fn, usage)
                # Out of the `except` block, so that nothing which is raised from here on has this failure as context.
                wait, ending = self.failed(run, error, outer, checking, name_of(fn), usage, cut)
                if wait is None:
                    raise_as_it_is(ending)
                last, error = error, None
                await self.apause(run, wait)
            ending = self.ended(run, last, name_of(fn), usage)
            raise_as_it_is(ending)
        finally:
            error = last = ending = outer = None  # an error holds this frame, which must not hold it
            leave(token)
            run.end()

    def require_plain(self) -> None:
        """Refuse, for the front that blocks, hooks that must be awaited.

        Raises:
            ConfigError: one of them is a coroutine function.
        """
        if self._awaits is not None:
            allowed = "a plain callable (a coroutine function needs acall)"
            raise ConfigError(self._awaits, "a coroutine function", allowed)

    def timer(self, limit: float) -> Timer:
        """What cuts the running task ``limit`` seconds from now."""
        return Timer(running_loop(), limit)

    def _finished(self, given: Any) -> Any:
        """What a validator gave, which must be nothing to await."""
        if given.__class__ is CoroutineType:
            given.close()
            raise ConfigError(
                "validate", name_of(self._validate), "a plain callable (a coroutine function needs acall)"
            )
        return given

    # What every front does with an outcome; `attempts` uses these too.

    def failed(
        self,
        run: Run,
        error: BaseException,
        outer: Any,
        checking: bool,
        name: str,
        usage: dict[str, int] | None,
        cut: bool = False,
        outside: BaseException | None = None,
    ) -> tuple[float | None, BaseException | None]:
        """After a failed attempt: the wait before the next, or the exception to end with.

        ``outside`` is what was being handled before the work began, where that is not what is handled now.

        Raises:
            BaseException: a wish to stop, found in the chain of ``error``.
        """
        if checking:
            judged, final = judge_validator(error), False
        else:
            judged, final = judge_failure(self.policy, error, run, outside or exception(), cut)
        return self.judged(run, judged, error, outer, name, usage, cut=cut, final=final)

    def judged(
        self,
        run: Run,
        judged: Failure,
        error: BaseException | None,
        outer: Any,
        name: str,
        usage: dict[str, int] | None,
        *,
        cut: bool = False,
        final: bool = False,
    ) -> tuple[float | None, BaseException | None]:
        """As ``failed``, once the failure is known."""
        silence = judged.reason == _SILENCE
        wait = run.failed(judged, request_id=request_id_of(error), fully_sent=silence, given_up_below=final)
        if wait is not None:
            _watch.retried(run.attempts[-1], name, judged.reason, self._on_retry)
            return wait, None
        ending = self.ended(run, error, name, usage, cut)
        if outer is not None:
            outer.gave_up(ending)
        return None, ending

    def settled(self, run: Run, good: bool, answer: Any, fn: object, usage: dict[str, int] | None) -> Any:
        """Give the answer of which the run was told, if it was ``good``: before the deadline.

        Raises:
            DeadlineExceeded: it came too late; it is kept in ``late_result``.
        """
        if not good:
            error = self.ended(run, None, fn if isinstance(fn, str) else name_of(fn), usage)
            error.late_result = answer  # type: ignore[attr-defined]  # a late answer is a deadline exceeded
            try:
                raise error
            finally:
                del error  # an error holds this frame, which must not hold it
        _watch.settled(run, usage, None, self._on_end)
        return answer

    def ended(
        self, run: Run, error: BaseException | None, name: str, usage: dict[str, int] | None, cut: bool = False
    ) -> BaseException:
        """The exception that ends the call: the last failure itself, with a note, or why there is none to raise."""
        stop = run.stop_reason
        _watch.settled(run, usage, stop, self._on_end)
        source = None if isinstance(error, Invalid) else error
        if run.stage is not None:
            ending: BaseException = DeadlineExceeded(stage=run.stage, **self._fields(run, name))
            ending.__cause__ = source
        elif stop == StopReason.REQUEST_BUDGET and error is None:
            ending = RequestBudgetSpent(**self._fields(run, name))
        elif cut:
            ending = AttemptTimeout(phase="attempt", detail="the attempt took too long", **self._fields(run, name))
            ending.__cause__ = source
        elif source is None:
            ending = ResponseError(status=None, **self._fields(run, name))
        else:
            ending = source
            note(ending, f"steadycall: {run.why}.")
        return ending

    def _fields(self, run: Run, name: str) -> dict[str, Any]:
        last = run.failure
        if run.stage == "attempt":
            reason = "The deadline cut the attempt. "  # whose own limit may never have been set
        else:
            reason = "" if last is None else f"{last.reason} "
        attempts = run.attempts
        hint = None if last is None or last.hint is None else last.hint.seconds
        return {
            "why": f"{name}: {reason}{run.why}.",
            "failure": last,
            "kind": None if last is None else last.kind,
            "stop_reason": run.stop_reason,
            "provider_code": None if last is None else last.provider_code,
            "attempts": attempts,
            "elapsed": run.elapsed,
            "retry_after": hint if run.barrier_wait is None else run.barrier_wait,
            "request_id": attempts[-1].request_id if attempts else None,
            "sent": run.sent,
        }

    def pause(self, run: Run, wait: float) -> None:
        """Wait, by the sleep that was given or the default one."""
        given = (default_sleep() if self._sleep is None else self._sleep)(wait)
        if given.__class__ is CoroutineType:
            given.close()
            raise ConfigError("sleep", "a coroutine function", "a plain callable (a coroutine function needs acall)")
        run.slept()

    async def apause(self, run: Run, wait: float) -> None:
        """As ``pause``; ``time.sleep`` means ``asyncio.sleep``."""
        sleep = default_asleep() if self._sleep is None or self._sleep is time.sleep else self._sleep
        given = sleep(wait)
        if given is not None and hasattr(given, "__await__"):
            await given
        run.slept()

    def __repr__(self) -> str:
        return f"<{self.policy!r}, bound>"


_SILENCE = failure("read_timeout", "maybe").reason
