"""``attempts``: the same loop around a block of code instead of a function."""

from __future__ import annotations

from sys import exception

from ._chain import is_control_flow
from ._errors import ConfigError
from ._finding import changed
from ._judge import INVALID, Invalid
from ._kinds import FailureKind
from ._loop import Timer, running_loop, timed_out
from ._native import failure
from ._retry import bind
from ._scope import HERE, CurrentAttempt, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextvars import Token
    from typing import Any, Unpack

    from ._operation import BoundPolicy
    from ._policy import Policy
    from ._records import Failure
    from ._retry import Options


def attempts(policy: Policy | BoundPolicy | None = None, /, **options: Unpack[Options]) -> Attempts:
    """Retry a block of code: ``for attempt in attempts(policy): with attempt: ...``, or the same with ``async for``.

    A block that ends without an exception ends the loop; one that raises is run again if the policy says so. Within
    it, ``attempt.fail(kind)`` makes the attempt a failure though nothing was raised. In ``async for``,
    ``async with attempt`` also cuts the block at the attempt's timeout; a plain ``with`` cannot, and tells
    ``attempt.timeout``.

    Args:
        policy: a ``Policy``, or what its ``bind`` gave; ``None`` is the default policy.
        options: as for ``retry``, but for ``validate``, which a block does by itself with ``attempt.fail``.

    Raises:
        ConfigError: a value that makes no sense.
        RuntimeError: while looping, an attempt was not entered with ``with``.
    """
    if options.get("validate") is not None:
        raise ConfigError("validate", "a callable", "left out: check the answer in the block, and attempt.fail(kind)")
    return Attempts(bind(policy, options))


class Attempts:
    """The attempts of one block; made by ``attempts``. Each loop over it starts afresh."""

    def __init__(self, bound: BoundPolicy) -> None:
        self._bound = bound

    def __iter__(self) -> Iterator[Attempt]:
        self._bound.require_plain()
        loop = _Loop(self._bound, awaits=False)
        while True:
            attempt = loop.next()
            yield attempt
            if (wait := loop.after(attempt)) is None:
                return
            self._bound.pause(loop.run, wait)

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        running_loop()
        loop = _Loop(self._bound, awaits=True)
        while True:
            attempt = loop.next()
            yield attempt
            if (wait := loop.after(attempt)) is None:
                return
            await self._bound.apause(loop.run, wait)


class _Loop:
    """One loop: the engine, and what surrounds it."""

    def __init__(self, bound: BoundPolicy, *, awaits: bool) -> None:
        self.bound = bound
        self.awaits = awaits
        self.outer = HERE.get()
        self.outside = exception()
        self.run = bound._starter.within(self.outer)
        self.last: BaseException | None = None

    def next(self) -> Attempt:
        begun = self.run.begin()
        last, self.last = self.last, None  # an error holds the frame of the block, and that the loop
        if begun:
            return Attempt(self)
        self.run.end()
        raise self.bound.ended(self.run, last, "the block", None)

    def after(self, attempt: Attempt) -> float | None:
        """Seconds to wait before the next attempt; ``None`` when there is none to make."""
        if attempt._state == _NEW:
            raise RuntimeError("an attempt was not entered: write `with attempt:` in the body of the loop")
        if attempt._state == _ENTERED:
            raise RuntimeError("an attempt is still running: the loop went on within its `with` block")
        return attempt._wait


_NEW, _ENTERED, _LEFT = "new", "entered", "left"


class Attempt(CurrentAttempt):
    """One attempt of a block: ``number``, ``remaining``, ``timeout``, and ``fail``."""

    __slots__ = ("_loop", "_state", "_timer", "_token", "_told", "_wait")

    def __init__(self, loop: _Loop) -> None:
        super().__init__(loop.run, loop.run)
        self._loop = loop
        self._state = _NEW
        self._told: Failure | None = None
        self._wait: float | None = None
        self._token: Token[Any] | None = None
        self._timer: Timer | None = None

    def fail(self, kind: FailureKind | str) -> None:
        """Make this attempt a failure of that kind, whether or not the block raises something.

        Raises:
            ConfigError: no such kind.
        """
        try:
            found = FailureKind(kind)
        except ValueError:
            raise ConfigError("kind", repr(kind), f"one of {', '.join(FailureKind)}") from None
        reason = "validation_failed" if found == FailureKind.VALIDATION else "told_by_caller"
        told = failure(reason, "maybe")
        self._told = changed(told, kind=found, retryable=found != FailureKind.PERMANENT)

    def __enter__(self) -> Attempt:
        if self._state != _NEW:
            raise RuntimeError("an attempt is entered once")
        self._state = _ENTERED
        self._token = HERE.set(self._run)
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        return self._leave(error, cut=False)

    async def __aenter__(self) -> Attempt:
        if not self._loop.awaits:
            raise RuntimeError("`async with attempt` is for `async for`, whose waits let other tasks run")
        self.__enter__()
        limit = self._run.timeout
        if limit is not None:
            self._timer = Timer(running_loop(), limit)
        return self

    async def __aexit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        cut = self._timer is not None and self._timer.stop(error)
        return self._leave(error, cut)

    def _leave(self, error: BaseException | None, cut: bool) -> bool:
        """Whether the block's exception is swallowed, because the loop goes on."""
        self._state = _LEFT
        loop, token = self._loop, self._token
        if token is not None:
            leave(token)
        try:
            ending = self._ending(error, cut)
        except BaseException:
            loop.run.end()
            raise
        if self._wait is not None:
            loop.last = error
            return True
        loop.run.end()
        if ending is None or ending is error:
            return False
        try:
            raise ending
        finally:
            del ending, error  # an error holds this frame, which must not hold it

    def _ending(self, error: BaseException | None, cut: bool) -> BaseException | None:
        """What the block ends with; ``None`` when it is well, or when another attempt follows."""
        loop, bound, told = self._loop, self._loop.bound, self._told
        if error is not None and not cut and is_control_flow(error):
            return error
        if error is None and told is None:
            bound.settled(loop.run, loop.run.answered(), None, "the block", None)
            return None
        if told is not None:
            source = Invalid(INVALID) if error is None else error
            self._wait, ending = bound.judged(loop.run, told, source, loop.outer, "the block", None, cut=cut)
        elif error is not None:
            found = timed_out(error) if cut else error
            self._wait, ending = bound.failed(
                loop.run, found, loop.outer, False, "the block", None, cut, outside=loop.outside
            )
        return ending
