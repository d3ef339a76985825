"""Time that moves only when told to, and sleeps that only take notes.

Deadlines, hints and back-off are then tested exactly and without a real second passing.
"""

import math
import threading
import types
from collections.abc import Generator


class FakeClock:
    """A clock for ``clock=`` whose ``sleep`` or ``asleep`` is for ``sleep=``: waiting moves the time on at once.

    Args:
        start: the first reading, in seconds.

    Every method may be called from any thread.
    A wait that is negative, infinite or not a number is a ``ValueError``, because real clocks never see one.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._now = _finite("start", start)
        #: The seconds each ``sleep`` and ``asleep`` asked for, in order.
        self.sleeps: list[float] = []

    def now(self) -> float:
        """The reading, in seconds."""
        with self._lock:
            return self._now

    def __call__(self) -> float:
        return self.now()

    def advance(self, seconds: float) -> None:
        """Let time pass, without a note in ``sleeps``: this is the world's time, not a wait somebody asked for."""
        seconds = _duration(seconds)
        with self._lock:
            self._now += seconds

    def sleep(self, seconds: float) -> None:
        """Note the wait and let it pass at once."""
        seconds = _duration(seconds)
        with self._lock:
            self.sleeps.append(seconds)
            self._now += seconds

    async def asleep(self, seconds: float) -> None:
        """``sleep`` as a coroutine; other tasks get a turn, as in ``asyncio.sleep``."""
        self.sleep(seconds)
        await _turn()

    def __repr__(self) -> str:
        return f"FakeClock(now={self.now()}, sleeps={self.sleeps})"


class FakeSleep(list[float]):
    """A list of waits that is itself a ``sleep``, sync and async: calling it notes the wait and returns at once."""

    def __call__(self, seconds: float) -> None:
        self.append(_duration(seconds))

    @property
    def waits(self) -> list[float]:
        """The waits as a plain list, a copy."""
        return list(self)


@types.coroutine
def _turn() -> Generator[None, None, None]:
    # Deliberately not asyncio.sleep(0): a test may have put FakeClock.asleep in its place.
    yield


def _duration(seconds: float) -> float:
    if _finite("seconds", seconds) < 0:
        raise ValueError(f"seconds must not be negative, got {seconds!r}")
    return float(seconds)


def _finite(name: str, seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"{name} must be a finite number of seconds, got {seconds!r}")
    return float(seconds)
