"""A function that plays a script, for tests of retries around functions that make no HTTP request themselves."""

import inspect
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple


class Call(NamedTuple):
    """The arguments of one run."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class ScriptedOperation:
    """Each call plays the next step: a value is returned, an exception raised, any other callable called.

    Args:
        script: the steps in order. Exceptions may be instances or classes; a callable gets the arguments of the run,
            and what it returns or raises is the outcome (so ``lambda: value`` returns a value that is itself callable).

    ``operation(...)`` is the function and ``operation.acall(...)`` its coroutine twin; both play the same script.
    A call beyond the script's end is an ``AssertionError``, which no retry repeats.
    """

    def __init__(self, script: Iterable[Any]) -> None:
        self._script = tuple(script)
        self._lock = threading.Lock()
        self.__name__ = self.__qualname__ = "scripted_operation"
        #: The arguments of each run, in order.
        self.calls: list[Call] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._play(args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """The same script for ``await``; what a callable step returns is awaited when it can be."""
        outcome = self._play(args, kwargs)
        return await outcome if inspect.isawaitable(outcome) else outcome

    @property
    def remaining(self) -> int:
        """How many steps have not been played; 0 when the code under test ran as often as the script foresaw."""
        return max(0, len(self._script) - len(self.calls))

    def _play(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            turn = len(self.calls)
            self.calls.append(Call(args, kwargs))
        if turn >= len(self._script):
            raise AssertionError(f"call {turn + 1} of an operation whose script has {len(self._script)} steps")
        step = self._script[turn]
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        return step(*args, **kwargs) if callable(step) else step

    def __repr__(self) -> str:
        return f"ScriptedOperation({len(self.calls)} of {len(self._script)} steps played)"
