"""Deadlines that are handed down, and the timeouts of an attempt's I/O phases."""

from __future__ import annotations

from math import ceil, floor, inf
from time import monotonic

from ._errors import ConfigError, DeadlineExceeded
from ._native import seconds, seconds_or_none
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta
    from typing import Any, Protocol

    class HasNow(Protocol):
        """Anything with ``now()`` in seconds on a clock that only goes forward."""

        def now(self) -> float: ...

    Clock = HasNow | Callable[[], float]
    Seconds = float | timedelta


HEADER = "X-Deadline-Seconds"
"""The header a deadline travels in, unless another one is asked for; the value is seconds left."""


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

    def to_header(self, name: str = HEADER) -> dict[str, str]:
        """The seconds left as a header, to be added to those of a request.

        A clock is never told, because another machine has another one; the way there comes on top of the time.

        Args:
            name: the header's name; ``"X-Server-Timeout"`` is the one Google's servers obey, in whole seconds.
        """
        left = self.remaining()
        if name.lower() == "x-server-timeout":
            return {name: str(max(1, ceil(left)))}
        return {name: f"{floor(left * 1000) / 1000:.3f}"}

    @classmethod
    def from_header(
        cls,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] | str | None,
        name: str = HEADER,
        *,
        clock: Clock | None = None,
    ) -> Deadline | None:
        """The deadline that a request brought along, counted from now; ``None`` when it brought none.

        Args:
            headers: those of the request, a mapping or pairs with names in any case, or the header's value alone.
            name: the header's name.
            clock: as for ``after``.

        Raises:
            ConfigError: the header holds no number of seconds.
        """
        if headers is None or isinstance(headers, str):
            value = headers
        else:
            items = headers.items() if hasattr(headers, "items") else headers
            value = next((text for key, text in items if key.lower() == name.lower()), None)
        if value is None:
            return None
        try:
            left = float(value)
        except ValueError:
            left = inf
        if not 0 <= left < inf:
            raise ConfigError(name, repr(value)[:80], "a finite number of seconds, 0 or more")
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
