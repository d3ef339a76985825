"""``attempts``: the same loop around a block of code instead of a function."""

from __future__ import annotations

from sys import exception

from ._errors import ConfigError
from ._judge import Invalid
from ._kinds import FailureKind
from ._native import Run, failure
from ._retry import bind
from ._scope import HERE, CurrentAttempt
from ._finding import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextvars import Token
    from typing import Any

    from ._operation import BoundPolicy
    from ._policy import Policy
    from ._records import Failure


def attempts(policy: Policy | BoundPolicy | None = None, /, **options: Any) -> Attempts:
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
        loop = _Loop(self._bound)
        while (attempt := loop.next()) is not None:
            yield attempt
            if (wait := loop.after(attempt)) is None:
                return
            self._bound.pause(loop.run, wait)

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        loop = _Loop(self._bound)
        while (attempt := loop.next()) is not None:
            yield attempt
            if (wait := loop.after(attempt)) is None:
                return
            await self._bound.apause(loop.run, wait)


class _Loop:
    """One loop: the engine, and what surrounds it."""

    def __init__(self, bound: BoundPolicy) -> None:
        self.bound = bound
        self.outer = HERE.get()
        self.outside = exception()
        self.run = Run(bound._checked, self.outer, bound._now, bound._draw, False)

    def next(self) -> Attempt | None:
        if self.run.begin():
            return Attempt(self)
        raise self.bound.ended(self.run, None, "the block", None)

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

    __slots__ = ("_failure", "_loop", "_state", "_timer", "_token", "_wait")

    def __init__(self, loop: _Loop) -> None:
        super().__init__(loop.run)
        self._loop = loop
        self._state = _NEW
        self._failure: Failure | None = None
        self._wait: float | None = None
        self._token: Token[Any] | None = None
        self._timer: Any = None

    def fail(self, kind: FailureKind | str) -> None:
        """Make this attempt a failure of that kind, though the block raises nothing.

        Raises:
            ConfigError: no such kind.
        """
        try:
            found = FailureKind(kind)
        except ValueError:
            raise ConfigError("kind", repr(kind), f"one of {', '.join(FailureKind)}") from None
        reason = "validation_failed" if found == FailureKind.VALIDATION else "told_by_caller"
        told = failure(reason, "maybe")
        self._failure = changed(told, kind=found, retryable=found != FailureKind.PERMANENT)

    def __enter__(self) -> Attempt:
        if self._state != _NEW:
            raise RuntimeError("an attempt is entered once")
        self._state = _ENTERED
        self._token = HERE.set(self._run)
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        return self._leave(error, cut=False)

    async def __aenter__(self) -> Attempt:
        self.__enter__()
        limit = self._run.timeout
        if limit is not None:
            import asyncio

            self._timer = asyncio.timeout(limit)
            await self._timer.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> bool:
        cut = False
        if self._timer is not None:
            try:
                await self._timer.__aexit__(kind, error, traceback)
            except TimeoutError as timeout:
                error, cut = timeout, True
        return self._leave(error, cut)

    def _leave(self, error: BaseException | None, cut: bool) -> bool:
        loop = self._loop
        self._state = _LEFT
        if self._token is not None:
            HERE.reset(self._token)
        if isinstance(error, GeneratorExit):
            return False
        if error is None and self._failure is None:
            loop.bound.answered(loop.run, None, "the block", None)
            loop.run.end()
            return False
        if error is None:
            told = self._failure
            assert told is not None
            wait, ending = loop.bound.judged(loop.run, told, Invalid(told, None), loop.outer, "the block", None)
        else:
            wait, ending = loop.bound.failed(loop.run, error, loop.outer, loop.outside, "the block", None, cut)
        if ending is None:
            self._wait = wait
            return True
        loop.run.end()
        if ending is error:
            return False
        raise ending
