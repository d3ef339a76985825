"""Deadlines that are handed down, and the timeouts of an attempt's I/O phases."""

from __future__ import annotations

from time import monotonic

from ._errors import ConfigError, DeadlineExceeded
from ._native import seconds, seconds_or_none
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Protocol

    class HasNow(Protocol):
        """Anything with ``now()`` in seconds on a clock that only goes forward."""

        def now(self) -> float: ...

    Clock = HasNow | Callable[[], float]
    Seconds = float | timedelta


class Deadline:
    """The end of a piece of work, on a clock that only goes forward; pass it down instead of a fresh number.

    It remembers the clock it was made with. Pickled or sent to another process it travels as the seconds left,
    never as a point in time, because two machines do not share a monotonic clock.
    """

    __slots__ = ("_end", "_now")

    _end: float
    _now: Callable[[], float]

    def __init__(self) -> None:
        raise TypeError("make a deadline with Deadline.after(seconds)")

    @classmethod
    def after(cls, limit: Seconds, *, clock: Clock | None = None) -> Deadline:
        """The deadline ``limit`` from now.

        Args:
            limit: seconds as int, float or ``timedelta``; finite and above 0.
            clock: an object with ``now()`` or a callable, in seconds; ``None`` is ``time.monotonic``.

        Raises:
            ConfigError: ``limit`` is not a finite time above 0.
        """
        return cls._in(seconds("limit", limit), read_clock(clock))

    @classmethod
    def _in(cls, left: float, now: Callable[[], float]) -> Deadline:
        self = object.__new__(cls)
        self._now = now
        self._end = now() + left
        return self

    @property
    def clock(self) -> Callable[[], float]:
        """The clock it was made with, as a callable that gives seconds."""
        return self._now

    def remaining(self) -> float:
        """Seconds left; 0.0 once it has passed."""
        return max(0.0, self._end - self._now())

    def require(self, at_least: Seconds = 0.0) -> float:
        """Seconds left, provided there are more than ``at_least``.

        Raises:
            DeadlineExceeded: no more than ``at_least`` seconds are left; stage ``"before_attempt"``.
        """
        needed = 0.0 if at_least == 0 else seconds("at_least", at_least)
        left = self.remaining()
        if left <= needed:
            raise DeadlineExceeded(
                why=f"{left:.3f} s are left of the deadline and more than {needed:g} s are needed",
                stage="before_attempt",
            )
        return left

    def to_header(self, *, whole: bool = False) -> str:
        """The seconds left, as the value of a header that hands the deadline to another process.

        Made anew for each request, as ``headers=lambda: {"X-Deadline": deadline.to_header()}``. A server's own header
        for it may want whole seconds, as Google's ``X-Server-Timeout`` does: ``whole=True`` rounds up.

        Args:
            whole: seconds without a fraction, rounded up; otherwise to the millisecond, rounded down.
        """
        left = self.remaining()
        if whole:
            return str(int(left) + (left > int(left)))
        return f"{int(left * 1000) / 1000:.3f}"

    @classmethod
    def from_header(cls, value: str, *, clock: Clock | None = None) -> Deadline:
        """The deadline that another process handed over with ``to_header``, on this process's clock.

        Args:
            value: seconds as a decimal number; 0 is a deadline that has passed.
            clock: as for ``after``.

        Raises:
            ConfigError: ``value`` is no number of seconds, 0 or more.
        """
        try:
            left = float(value)
        except (TypeError, ValueError):
            left = -1.0
        if not 0 <= left < float("inf"):
            raise ConfigError("value", repr(value), "seconds as a decimal number, 0 or more")
        return cls._in(left, read_clock(clock))

    def __repr__(self) -> str:
        return f"<Deadline in {self.remaining():.3f} s>"

    def __reduce__(self) -> tuple[Callable[[float], Deadline], tuple[float]]:
        return _deadline_in, (self.remaining(),)


def _deadline_in(left: float) -> Deadline:
    return Deadline._in(left, monotonic)


def read_clock(clock: Clock | None) -> Callable[[], float]:
    """The callable behind a ``clock=`` argument: an object with ``now()``, a callable, or ``time.monotonic``."""
    if clock is None:
        return monotonic
    now = getattr(clock, "now", clock)
    if not callable(now):
        raise ConfigError("clock", repr(type(clock).__name__), "an object with now(), a callable, or None")
    return now


class _Unnamed:
    """Stands where a phase was not named; in a signature it reads ``...``."""

    def __repr__(self) -> str:
        return "..."


_UNNAMED: Any = _Unnamed()


@frozen
class Timeout:
    """How long each I/O phase of one attempt may take, in seconds; ``None`` is not limited.

    ``Timeout(5.0)`` is 5 s for each phase, ``Timeout(5.0, read=60)`` the same with a patient read.

    Args:
        default: seconds for every phase that is not named.
        connect: name look-up, TCP, proxy and TLS hand-shakes together.
        read: longest silence while waiting for, or reading, the answer.
        write: longest standstill while the request is being written.
        pool: longest wait for a connection of the pool.

    Raises:
        ConfigError: one of them is neither a finite time above 0 nor ``None``.
    """

    connect: Seconds | None
    """Name look-up, TCP, proxy and TLS hand-shakes together."""
    read: Seconds | None
    """Longest silence while waiting for, or reading, the answer."""
    write: Seconds | None
    """Longest standstill while the request is being written."""
    pool: Seconds | None
    """Longest wait for a connection of the pool; the pool is not limited yet, so no call waits for it."""

    def __init__(
        self,
        default: Seconds | None = 30.0,
        /,
        *,
        connect: Seconds | None = _UNNAMED,
        read: Seconds | None = _UNNAMED,
        write: Seconds | None = _UNNAMED,
        pool: Seconds | None = _UNNAMED,
    ) -> None:
        seconds_or_none("timeout", default)
        for name, given in (("connect", connect), ("read", read), ("write", write), ("pool", pool)):
            if given is not _UNNAMED:
                seconds_or_none(f"timeout.{name}", given)
            self.__dict__[name] = default if given is _UNNAMED else given
