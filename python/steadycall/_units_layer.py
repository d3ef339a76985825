"""A unit of work as the layers within it see it: whether a request may begin, and how long a call may take.

Any front obeys a unit without knowing it, because a unit is a scope whose requests are used up once nothing may
begin. A front that waits for a request has more to ask; it finds the unit with ``unit_around(around())``:

    unit.may_start(wait)          # before the wait for a retry: may one begin after it?
    unit.line_up()                # before it queues: the time of the call stands still until its first permit
    unit.start_within()           # how long it may queue
    unit.permitted() or ...       # with the permit: may the request still begin? if not, give the permit back
    around().remaining()          # ... and how long may it take
    unit.leave_line()             # without a permit
"""

from __future__ import annotations

from threading import Lock

from ._loop import Timer
from ._scope import scope, tighter
from ._units_record import UnitOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from ._time import Deadline


MANY = 1 << 31
"""Requests of a unit that is not limited: more than it can make, and a number, so that what is left can be compared."""


class Flag:
    """Raised once, by whoever comes first; it never comes down."""

    __slots__ = ("_lock", "why")

    why: str | None
    """Why it was raised; ``None`` as long as it was not."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.why = None

    def put_up(self, why: str) -> None:
        """Raise it; the first reason stays."""
        with self._lock:
            if self.why is None:
                self.why = why


class Unit(scope):
    """The layer around the calls of one unit."""

    def __init__(self, flag: Flag, not_after: Deadline, call_limit: float, requests: int | None) -> None:
        super().__init__(requests=MANY if requests is None else requests)
        self._flag = flag
        self._not_after = not_after
        self.call_limit = call_limit
        self._call: CallClock | None = None
        self.spent = 0
        """Requests made within."""
        self.refused: UnitOutcome | None = None
        """Why a request was refused, when the last of them was not for want of requests."""

    def next_call(self) -> CallClock:
        """Begin a call; what it gives is the call's own clock."""
        self._call = CallClock(self._not_after.clock)
        return self._call

    # What those who stand in line ask

    def may_start(self, wait: float = 0.0) -> bool:
        """Whether a request may begin ``wait`` seconds from now: nobody stopped the group, and it is not too late."""
        return self._ended or self.refusal(wait) is None

    def start_within(self) -> float | None:
        """Seconds in which a request may still begin; ``None`` is not limited."""
        outer = None if self._around is None else self._around.remaining()
        if self._ended:
            return outer
        return 0.0 if self._flag.why is not None else tighter(self._not_after.remaining(), outer)

    def longest(self, layer: Any) -> float | None:
        """Seconds until a request that ``layer`` makes must be over, should its permit come at the last moment.

        ``None`` is not limited. With the permit ``layer.remaining()`` tells more.
        """
        if self._ended or self._call is None or self._call.permitted:
            return layer.remaining()  # type: ignore[no-any-return]  # a layer's, which says so
        latest = self.start_within()
        left = None if latest is None else latest + self.call_limit
        while layer is not self and layer is not None:
            if isinstance(layer, scope):
                left = tighter(left, layer._own())
            layer = layer.around
        return left

    def line_up(self) -> None:
        """Told that a request queues: until its first permit the time of the call stands still."""
        if self._call is not None:
            self._call.stand()

    def leave_line(self) -> None:
        """Told that a request left the queue without a permit."""
        if self._call is not None:
            self._call.go(permitted=False)

    def permitted(self) -> bool:
        """Told that a request in the queue got its permit; whether it may begin, and else gives the permit back."""
        if self._call is not None:
            self._call.go(permitted=True)
        return self.may_start()

    # What every layer asks

    def refusal(self, wait: float = 0.0) -> UnitOutcome | None:
        """Why no request may begin ``wait`` seconds from now; ``None`` when one may."""
        if self._flag.why is not None:
            return UnitOutcome.STOPPED
        return UnitOutcome.DEADLINE if self._not_after.remaining() <= wait else None

    def is_overdue(self) -> bool:
        """Whether the call took longer than it may."""
        return self._call is not None and self._call.elapsed() >= self.call_limit

    def left(self) -> int | None:
        """As of a scope, and 0 when none may begin: who asks then gives up now, and not after a wait."""
        return 0 if self._refuses() else super().left()

    def spend(self) -> bool:
        """As of a scope."""
        if self._refuses() or not super().spend():
            return False
        if not self._ended:
            with self._lock:
                self.spent += 1
        return True

    def refund(self) -> None:
        """As of a scope."""
        super().refund()
        if not self._ended:
            with self._lock:
                self.spent -= 1

    def _refuses(self) -> bool:
        if self._ended:
            return False
        self.refused = self.refusal()
        return self.refused is not None

    def _own(self) -> float | None:
        if self._ended or self._call is None:
            return None
        return max(0.0, self.call_limit - self._call.elapsed())


class CallClock:
    """The time of one call: it stands still while the call waits in line for its first permit."""

    __slots__ = ("_begun", "_in_line", "_lock", "_now", "_since", "_stood", "permitted")

    permitted: bool
    """Whether it got its first permit in line, after which it never stands still."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._begun = now()
        self._lock = Lock()
        self._in_line = 0
        self._since = 0.0
        self._stood = 0.0
        self.permitted = False

    def __call__(self) -> float:
        now = self._now()
        return now - self._stood_at(now)

    def elapsed(self) -> float:
        """Seconds of the call so far."""
        return self() - self._begun

    def stood(self) -> float:
        """Seconds it stood still so far."""
        return self._stood_at(self._now())

    def stand(self) -> None:
        """Stand still, for one more in line."""
        now = self._now()
        with self._lock:
            if not self.permitted:
                if not self._in_line:
                    self._since = now
                self._in_line += 1

    def go(self, *, permitted: bool) -> None:
        """Go on: for good with the first permit, and else when nobody is in line any more."""
        now = self._now()
        with self._lock:
            if self.permitted or not self._in_line:
                return
            self.permitted = permitted
            self._in_line = 0 if permitted else self._in_line - 1
            if not self._in_line:
                self._stood += now - self._since

    def _stood_at(self, now: float) -> float:
        with self._lock:
            return self._stood + (now - self._since if self._in_line else 0.0)


class PatientTimer(Timer):
    """A timer of a call: it grants what the call's clock stood still."""

    __slots__ = ("_clock", "_granted", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float, clock: CallClock) -> None:
        self._loop = loop
        self._clock = clock
        self._granted = clock.stood()
        super().__init__(loop, limit)

    def _fire(self) -> None:
        stood = self._clock.stood()
        more, self._granted = stood - self._granted, stood
        if more > 0:
            self._handle = self._loop.call_later(more, self._fire)
        else:
            super()._fire()
