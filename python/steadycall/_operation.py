"""The two fronts for wrapped functions, one sync and one async: they run, wait and validate; the core decides.

Both are the same loop. What differs is what only one of them can do: the async one is cut by a timer, the sync one
cannot be cut and is told ``timeout`` instead.
"""

from __future__ import annotations

import sys
from sys import exception
from types import CoroutineType

from . import _usage, _watch
from ._errors import AttemptTimeout, ConfigError, DeadlineExceeded, RequestBudgetSpent, ResponseError
from ._hooks import check_sleep, default_asleep, default_sleep, draws
from ._judge import Invalid, invalid, judge_failure, verdict
from ._kinds import StopReason
from ._native import Run, callback, failure
from ._records import CallRecord
from ._scope import HERE
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

    __slots__ = ("_checked", "_draw", "_now", "_on_end", "_on_retry", "_plain", "_rng", "_sleep", "_validate", "policy")

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
        self._checked = policy._checked
        self._validate = validate
        self._sleep = sleep
        self._now = None if clock is None else read_clock(clock)
        self._rng = rng
        self._draw = None if rng is None else draws(rng)
        self._on_retry = callback("on_retry", on_retry)
        self._on_end = callback("on_end", on_end)
        # Where no answer needs a second look.
        self._plain = validate is None and on_end is None and policy.deadline is None

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
        outer, outside = HERE.get(), exception()
        run = Run(self._checked, outer, self._now, self._draw, False)
        token = HERE.set(run)
        usage = None
        try:
            while run.begin():
                try:
                    answer: Any = fn(*args, **kwargs)
                    if answer.__class__ is CoroutineType:
                        answer.close()
                        raise ConfigError("fn", name_of(fn), "a plain function (a coroutine function needs acall)")
                    if self._plain and outer is None:
                        return answer
                    usage = _usage.add(usage, answer)
                    if self._validate is not None and run.remaining != 0.0:
                        answer = self._validated(answer)
                except BaseException as error:
                    wait, ending = self.failed(run, error, outer, outside, name_of(fn), usage)
                    if ending is error:
                        raise
                else:
                    return self.answered(run, answer, name_of(fn), usage)
                if ending is not None:
                    raise ending
                self.pause(run, wait)
            raise self.ended(run, None, name_of(fn), usage)
        finally:
            HERE.reset(token)
            run.end()

    async def acall(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``call``, for a coroutine function; see ``Policy.acall``."""
        outer, outside = HERE.get(), exception()
        run = Run(self._checked, outer, self._now, self._draw, False)
        token = HERE.set(run)
        usage = None
        try:
            while run.begin():
                timer = None
                try:
                    limit = run.timeout
                    if limit is None:
                        answer: Any = await fn(*args, **kwargs)
                    else:
                        async with sys.modules["asyncio"].timeout(limit) as timer:
                            answer = await fn(*args, **kwargs)
                    if self._plain and outer is None:
                        return answer  # type: ignore[no-any-return]  # what fn promised
                    usage = _usage.add(usage, answer)
                    if self._validate is not None:
                        answer = await self._avalidated(answer)
                except BaseException as error:
                    cut = timer is not None and isinstance(error, TimeoutError) and timer.expired()
                    wait, ending = self.failed(run, error, outer, outside, name_of(fn), usage, cut)
                    if ending is error:
                        raise
                else:
                    return self.answered(run, answer, name_of(fn), usage)  # type: ignore[no-any-return]  # as above
                if ending is not None:
                    raise ending
                await self.apause(run, wait)
            raise self.ended(run, None, name_of(fn), usage)
        finally:
            HERE.reset(token)
            run.end()

    def _validated(self, answer: Any) -> Any:
        try:
            given = self._validate(answer)  # type: ignore[misc]  # asked only when there is one
        except Exception as error:
            raise invalid(error) from error
        if given.__class__ is CoroutineType:
            given.close()
            raise ConfigError("validate", name_of(self._validate), "a plain callable (a coroutine function needs acall)")
        return verdict(answer, given)

    async def _avalidated(self, answer: Any) -> Any:
        try:
            given = self._validate(answer)  # type: ignore[misc]  # asked only when there is one
            if given.__class__ is CoroutineType:
                given = await given
        except Exception as error:
            raise invalid(error) from error
        return verdict(answer, given)

    # What every front does with an outcome; `attempts` uses these too.

    def failed(
        self,
        run: Run,
        error: BaseException,
        outer: Any,
        outside: BaseException | None,
        name: str,
        usage: dict[str, int] | None,
        cut: bool = False,
    ) -> tuple[float, BaseException | None]:
        """After a failed attempt: the wait before the next, or the exception to end with.

        Raises:
            BaseException: a wish to stop, found in the chain of ``error``.
        """
        judged = failure("attempt_timeout", "maybe") if cut else judge_failure(self.policy, error, run, outside)
        return self.judged(run, judged, error, outer, name, usage, cut)

    def judged(
        self,
        run: Run,
        judged: Failure,
        error: BaseException | None,
        outer: Any,
        name: str,
        usage: dict[str, int] | None,
        cut: bool = False,
    ) -> tuple[float, BaseException | None]:
        """As ``failed``, once the failure is known."""
        wait = run.failed(judged, request_id=request_id_of(error), fully_sent=judged.reason == _SILENCE)
        if wait is not None:
            _watch.retried(run.attempts[-1], name, judged.reason, self._on_retry)
            return wait, None
        ending = self.ended(run, error, name, usage, cut)
        if outer is not None:
            outer.gave_up(ending)
        return 0.0, ending

    def answered(self, run: Run, answer: Any, name: str, usage: dict[str, int] | None) -> Any:
        """Give the answer, unless the deadline has passed.

        Raises:
            DeadlineExceeded: it came too late; it is kept in ``late_result``.
        """
        if not run.answered():
            error = self.ended(run, None, name, usage)
            error.late_result = answer  # type: ignore[attr-defined]  # a late answer is a deadline exceeded
            raise error
        self._tell_end(run, usage, None)
        return answer

    def ended(
        self, run: Run, error: BaseException | None, name: str, usage: dict[str, int] | None, cut: bool = False
    ) -> BaseException:
        """The exception that ends the call: the last failure itself, with a note, or why there was none to raise."""
        stop = run.stop_reason
        self._tell_end(run, usage, stop)
        source = error.error if isinstance(error, Invalid) else error
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
            ending.add_note(f"steadycall: {run.why}.")
        return ending

    def _fields(self, run: Run, name: str) -> dict[str, Any]:
        last = run.failure
        reason = "" if last is None else f"{last.reason} "
        attempts = run.attempts
        return {
            "why": f"{name}: {reason}{run.why}.",
            "failure": last,
            "kind": None if last is None else last.kind,
            "stop_reason": run.stop_reason,
            "provider_code": None if last is None else last.provider_code,
            "attempts": attempts,
            "elapsed": run.elapsed,
            "retry_after": None if last is None or last.hint is None else last.hint.seconds,
            "request_id": attempts[-1].request_id if attempts else None,
            "sent": run.sent,
        }

    def _tell_end(self, run: Run, usage: dict[str, int] | None, stop: StopReason | None) -> None:
        if self._on_end is None:
            return
        record = CallRecord(
            attempts=run.attempts,
            requests=run.requests,
            elapsed=run.elapsed,
            usage=usage,
            outcome="answered" if stop is None else stop.value,
            stop_reason=stop,
        )
        _watch.ended(record, self._on_end)

    def pause(self, run: Run, wait: float) -> None:
        """Wait, by the sleep that was given or the default one."""
        given = (default_sleep() if self._sleep is None else self._sleep)(wait)
        if given.__class__ is CoroutineType:
            given.close()
            raise ConfigError("sleep", "a coroutine function", "a plain callable (a coroutine function needs acall)")
        run.slept()

    async def apause(self, run: Run, wait: float) -> None:
        """As ``pause``; ``time.sleep`` means ``asyncio.sleep``."""
        sleep = default_asleep() if self._sleep is None or self._sleep is default_sleep() else self._sleep
        given = sleep(wait)
        if given is not None and hasattr(given, "__await__"):
            await given
        run.slept()

    def __repr__(self) -> str:
        return f"<{self.policy!r}, bound>"


_SILENCE = failure("read_timeout", "maybe").reason


def request_id_of(error: object) -> str | None:
    """The server's id for a request, where an SDK's error tells it."""
    found = getattr(error, "request_id", None)
    return found if isinstance(found, str) else None


def name_of(fn: object) -> str:
    """A callable's name for messages."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__
