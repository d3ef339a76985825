"""The two fronts of a client, one that blocks and one for asyncio, as what only each of them can do.

The methods are coroutine functions of both, and those of the blocking one never wait, so that the loop above them is
written once (``finish`` of ``_carrier`` runs such a coroutine to its end).
"""

from __future__ import annotations

import sys
import time
from types import BuiltinFunctionType

from . import _sleep
from ._errors import ConfigError
from ._gevent import cooperative
from ._hooks import check_sleep, default_asleep, default_sleep
from ._native import PENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._hooks import Sleep
    from ._native import HttpCall, Passing


class OutOfTime(Exception):
    """What a caller's function gave took longer than the deadline allows."""


class Blocking:
    """The front that blocks its thread."""

    may_await = False

    def __init__(self, sleep: Sleep | None) -> None:
        if sleep is not None:
            check_sleep(sleep, may_be_awaited=self.may_await)
        self.sleep = sleep

    @property
    def lends_sleep(self) -> bool:
        """Whether waiting is a caller's business: a sleep of his own, a fake one, gevent's."""
        return self.sleep is not None or not isinstance(default_sleep(), BuiltinFunctionType)

    async def attempt(self, one: HttpCall) -> Any:
        """One attempt: the parsed answer, or ``PENDING``."""
        return cooperative(one.attempt, one.abort)()

    async def pause(self, one: Any, wait: float) -> None:
        """Wait, by the sleep of the moment."""
        one.slept((default_sleep() if self.sleep is None else self.sleep)(wait))

    async def enter(self, passing: Passing) -> bool:
        """Wait at the gates for whatever is not known to come; whether they were passed."""
        return cooperative(passing.go, passing.give_up)()

    async def finished(self, what: str, given: Any, left: float | None = None) -> Any:
        """What a caller's function gave, which this front cannot await.

        Raises:
            ConfigError: it must be awaited.
        """
        if hasattr(given, "__await__"):
            if hasattr(given, "close"):
                given.close()  # or Python would warn of it later, far from here
            raise ConfigError(what, "something to await", "a plain callable (a coroutine function needs AsyncClient)")
        return given


class Awaiting(Blocking):
    """The front for asyncio."""

    may_await = True

    @property
    def lends_sleep(self) -> bool:
        if self.sleep is not None:
            return self.sleep is not time.sleep
        return _sleep.replacement is not None or sys.modules["asyncio"].sleep.__module__ != "asyncio.tasks"

    async def attempt(self, one: HttpCall) -> Any:
        started = one.start()
        if started is None:
            return PENDING
        answer = await started
        return one.collect() if answer is PENDING else answer

    async def pause(self, one: Any, wait: float) -> None:
        sleep = default_asleep() if self.sleep is None or self.sleep is time.sleep else self.sleep
        pause: Any = sleep(wait)
        if pause is not None and hasattr(pause, "__await__"):
            await pause
        one.slept()

    async def enter(self, passing: Passing) -> bool:
        waiting = passing.ago()
        return True if waiting is None else await waiting

    async def finished(self, what: str, given: Any, left: float | None = None) -> Any:
        """The same, awaited for ``left`` seconds at most.

        Raises:
            OutOfTime: it took longer.
        """
        if not hasattr(given, "__await__"):
            return given
        timer = sys.modules["asyncio"].timeout(left)
        try:
            async with timer:
                return await given
        except TimeoutError:
            if timer.expired():
                raise OutOfTime from None
            raise
