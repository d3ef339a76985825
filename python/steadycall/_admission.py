"""The gates of a client as fronts that send by themselves meet them: transports, and streams."""

from __future__ import annotations

from . import _watch
from ._errors import Closed
from ._native import Barred
from ._scope import tighter, unit_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._family import Pairs
    from ._front import Blocking
    from ._native import Gates, Passing, Run
    from ._records import Event, Failure


class Life:
    """Whether a client was closed; shared with those made of it, and with the fronts behind its gates."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class Admission:
    """The way in for the requests of one client, or of one SDK that was put behind it."""

    def __init__(
        self,
        gates: Gates,
        front: Blocking,
        *,
        told_time: bool,
        max_wait: float,
        draw: Any,
        on_event: Callable[[Event], Any] | None,
        life: Life | None = None,
    ) -> None:
        self.gates = gates
        self._front = front
        self._told_time = told_time
        self._max_wait = max_wait
        self._draw = draw
        self.on_event = on_event
        self._life = life or Life()

    async def admit(
        self,
        run: Run,
        host: str,
        path: str,
        headers: Pairs,
        body: bytes,
        *,
        partition: str = "",
        tokens: int | None = None,
        tell: Callable[..., Any] | None = None,
        waits: Callable[[Passing], Any] | None = None,
    ) -> Passing | None:
        """Wait until the gates let the attempt through that ``run`` began; ``None`` when they refuse it.

        ``tell`` is told that it waits, and that it waits no more; ``waits`` is given its way through them before it
        waits, so that others can give it up.

        Raises:
            Closed: the client was closed, or the way was given up meanwhile.
        """
        if self._life.over:
            raise Closed("this client was closed; make another one")
        since: float | None = None
        lends_sleep = self._told_time or self._front.lends_sleep
        left = run.deadline_left
        unit = unit_around(run.around)
        if unit is not None:
            unit.line_up()
            left = tighter(left, unit.start_within())
        passing = self.gates.approach(host, path, headers, body, partition, tokens, left, self._max_wait, lends_sleep)
        try:
            if waits is not None:
                waits(passing)
            while (wait := passing.look()) is not None:
                if tell is not None and since is None:
                    since = run.elapsed
                    tell(name="waiting", number=run.number, wait=wait if wait >= 0 else None)
                if wait >= 0:
                    await self._front.pause(passing, wait)
                elif await self._front.enter(passing):
                    break
        except Barred as barred:
            if unit is not None:
                unit.leave_line()
            stop, _stage, wait, why = barred.args
            run.barred(str(stop), why, wait)
            return None
        except BaseException:
            if unit is not None:
                unit.leave_line()
            passing.give_up()
            raise
        if unit is not None and not unit.permitted():
            passing.give_up()
            run.barred("request_budget", "the unit of work around it lets no request begin any more", None)
            return None
        run.admitted()
        if tell is not None and since is not None:
            tell(name="admitted", number=run.number, wait=run.elapsed - since)
        return passing

    def record(
        self,
        passing: Passing,
        failure: Failure | None,
        url: str,
        *,
        cut_short: bool = False,
        used: int | None = None,
        headers: Pairs | None = None,
    ) -> None:
        """Told what came of an attempt, once it is over."""
        for key, state in passing.record(failure, cut_short, used, headers, url, self._draw):
            _watch.circuit(key, state, self.on_event)
