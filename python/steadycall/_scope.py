"""``scope``: one deadline and one request budget for all the layers within it; and where the layers find each other.

A layer is a ``scope`` or the run of a wrapped function. Each knows the one around it, and answers three questions
for those within: how much time is left, how many requests are left, and may I make one.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from threading import Lock

from ._hooks import AWAITED, code_flags
from ._native import Run, count, seconds
from ._time import Deadline, read_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from typing import Any, ParamSpec, TypeVar

    from ._time import Clock, Seconds

    P = ParamSpec("P")
    T = TypeVar("T")
    N = TypeVar("N", int, float)

HERE: ContextVar[Any] = ContextVar("steadycall_layer", default=None)
"""The innermost layer of the running context."""

around = HERE.get
"""The layer a call begins in; ``None`` outside of any."""


def tighter(one: N | None, other: N | None) -> N | None:
    """The lower of two limits; ``None`` is none."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def unit_around(layer: Any) -> Any:
    """The unit of work that a layer belongs to, see ``_units_layer``; ``None`` outside of any."""
    while layer is not None and not hasattr(layer, "may_start"):
        layer = layer.around
    return layer


def leave(token: Token[Any]) -> None:
    """Go back to the layer around."""
    try:
        HERE.reset(token)
    except ValueError:
        pass  # a coroutine or generator that the collector closes does so in another context, which knows nothing of us


class scope:
    """Give everything within one deadline and one request budget: ``with scope(deadline=4.0, requests=6): ...``.

    It works as a plain and as an async context manager, and is used once. Inner scopes nest by the tighter bound.
    Every attempt of ``call``, ``acall``, a ``Policy`` or a transport within spends from it: a wrapped function spends
    one request a run, unless steadycall made requests within that run, which then count instead. Tasks that are
    started within belong to it, and so does ``asyncio.to_thread``; threads and executors need ``carry``. Once it has
    ended it binds nobody: a call that begins later, in a task or thread which goes on, is free of it, and one that
    began within keeps the deadline it began with.

    In an async generator the bounds hold until its next ``yield`` and from then on for whoever resumes it, as all
    context variables do: open the scope around the loop that consumes it instead.

    Args:
        deadline: seconds, counted from entering, or a ``Deadline`` that was handed down.
        requests: how many requests may be made within, at least 1.
        clock: an object with ``now()`` or a callable, for a deadline given in seconds.

    Raises:
        ConfigError: a value that makes no sense.
    """

    def __init__(
        self,
        *,
        deadline: Seconds | Deadline | None = None,
        requests: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        if deadline is not None and not isinstance(deadline, Deadline):
            seconds("deadline", deadline)  # counted from entering
            read_clock(clock)
        if requests is not None:
            count("requests", requests)
        self._given = deadline
        self._clock = clock
        self._requests = requests
        self._deadline: Deadline | None = None
        self._around: Any = None
        self._token: Token[Any] | None = None
        self._entered = False
        self._ended = False
        self._lock = Lock()

    def __enter__(self) -> scope:
        if self._entered:
            raise RuntimeError("a scope is entered once; make another one")
        self._entered = True
        given = self._given
        if given is not None:
            self._deadline = given if isinstance(given, Deadline) else Deadline.after(given, clock=self._clock)
        self._around = HERE.get()
        self._token = HERE.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        if self._token is not None:
            leave(self._token)

    async def __aenter__(self) -> scope:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    @property
    def around(self) -> Any:
        """The layer around this one; ``None`` when there is none."""
        return self._around

    def remaining(self) -> float | None:
        """Seconds left within; ``None`` when nothing limits them."""
        outer = None if self._around is None else self._around.remaining()
        return tighter(self._own(), outer)

    def left(self) -> int | None:
        """Requests left within; ``None`` when nothing limits them."""
        outer = None if self._around is None else self._around.left()
        return tighter(None if self._ended else self._requests, outer)

    def spend(self) -> bool:
        """Take one request, here and from the layers around; ``False`` when one of them has none left."""
        if not self._ended and self._requests is not None:
            with self._lock:
                if self._requests < 1:
                    return False
                self._requests -= 1
        if self._around is None or self._around.spend():
            return True
        if not self._ended and self._requests is not None:
            with self._lock:
                self._requests += 1
        return False

    def refund(self) -> None:
        """Give a request back, here and to the layers around, that was not made after all."""
        if not self._ended and self._requests is not None:
            with self._lock:
                self._requests += 1
        if self._around is not None:
            self._around.refund()

    def gave_up(self, error: BaseException) -> None:
        """Told by a layer within that it gave up with ``error``: final for the layers around."""
        if self._around is not None:
            self._around.gave_up(error)

    def carry(self, fn: Callable[P, T]) -> Callable[P, T]:
        """``fn``, bound to this scope wherever it is run: for threads and executors, which inherit no context.

        An attempt that is under way within the scope, where ``carry`` is called, is carried along. A coroutine
        function stays one.
        """
        layer = found = HERE.get()
        while found is not None and found is not self:
            found = found.around
        within = self if found is None else layer

        @wraps(fn)
        def carried(*args: P.args, **kwargs: P.kwargs) -> T:
            token = HERE.set(within)
            try:
                return fn(*args, **kwargs)
            finally:
                leave(token)

        @wraps(fn)
        async def acarried(*args: Any, **kwargs: Any) -> Any:
            token = HERE.set(within)
            try:
                return await fn(*args, **kwargs)  # type: ignore[misc]  # a coroutine function, seen below
            finally:
                leave(token)

        return acarried if code_flags(fn) & AWAITED else carried  # type: ignore[return-value]  # as fn is

    def _own(self) -> float | None:
        """Seconds left of this scope's own deadline."""
        return None if self._ended or self._deadline is None else self._deadline.remaining()

    def __repr__(self) -> str:
        state = "ended" if self._ended else "entered" if self._entered else "not entered"
        return f"<scope {state}: remaining={self.remaining()}, requests={self.left()}>"


class CurrentAttempt:
    """The attempt under way in a wrapped function; made by ``current_attempt()``."""

    __slots__ = ("_layer", "_run")

    def __init__(self, run: Run, layer: Any) -> None:
        self._run = run
        self._layer = layer

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return self._run.number

    @property
    def remaining(self) -> float | None:
        """Seconds left of the deadline; ``None`` when there is none."""
        return self._within(self._run.deadline_left)

    @property
    def timeout(self) -> float | None:
        """Seconds this attempt may still take; ``None`` when nothing limits it. Give it to what you call."""
        return self._within(self._run.timeout)

    def _within(self, left: float | None) -> float | None:
        """``left``, or less in a scope that was opened within the attempt."""
        layer = self._layer
        while layer is not self._run:
            left = tighter(left, layer._own())
            layer = layer.around
        return left

    def __repr__(self) -> str:
        return f"<attempt {self.number}: timeout={self.timeout}>"


def current_attempt() -> CurrentAttempt:
    """The attempt under way, inside of a function that ``retry``, ``Policy.call`` or ``Policy.acall`` runs.

    Raises:
        RuntimeError: no such function is running.
    """
    layer = found = HERE.get()
    while found is not None and not isinstance(found, Run):
        found = found.around
    if found is None:
        raise RuntimeError("no attempt is under way: current_attempt() is for functions that a policy runs")
    return CurrentAttempt(found, layer)
