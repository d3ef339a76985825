"""What the async fronts need of asyncio: its loop, and a timer that cuts the running task.

asyncio is loaded by whoever runs a loop, so it is looked up and never imported here.
"""

from __future__ import annotations

import sys

from ._chain import is_cancellation, walk
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop.

    Raises:
        ConfigError: trio runs instead.
        RuntimeError: nothing runs.
    """
    asyncio = sys.modules.get("asyncio")
    found = None if asyncio is None else asyncio._get_running_loop()
    if found is None:
        trio: Any = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            raise ConfigError("the event loop", "trio", "asyncio's: steadycall does not run under trio")
        raise RuntimeError("no running event loop")
    return found  # type: ignore[no-any-return]  # of asyncio, which mypy does not see behind sys.modules


def cancelling() -> int | None:
    """How many want the running task cancelled; ``None`` outside of a task."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    task: Any = asyncio.current_task()
    return None if task is None else task.cancelling()


class Timer:
    """Cancels the running task once, ``limit`` seconds from now, unless it is stopped before.

    As ``asyncio.timeout`` does it, without the coroutines that a context manager costs: it runs at every attempt.
    """

    __slots__ = ("_cancelling", "_handle", "_task", "fired")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        task: Any = sys.modules["asyncio"].current_task(loop)
        if task is None:
            raise RuntimeError("an attempt with a time limit must run inside a task")
        self._task = task
        self.fired = False
        self._handle = loop.call_at(loop.time() + limit, self._fire)

    def _fire(self) -> None:
        self.fired = True
        self._cancelling = self._task.cancelling()
        self._task.cancel()

    def stop(self, error: BaseException | None = None) -> bool:
        """Whether it is why the work ended with ``error``; from now on it does nothing."""
        self._handle.cancel()
        if not self.fired or self._task.uncancel() > self._cancelling or error is None:
            return False  # or somebody else wants the task cancelled as well
        # What was cancelled may have wrapped it into an exception of its own.
        return any(is_cancellation(found) for _, found in walk(error))


def timed_out(error: BaseException) -> Exception:
    """What a cut attempt ends with; where it was cut stands behind it."""
    if isinstance(error, Exception):
        return error
    cut = TimeoutError("the attempt was cut by its timer")
    cut.__cause__ = error
    return cut
