"""How fast a bulk run is and when it will be over, from what it told of itself lately."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steadycall import BulkProgress

WINDOW = 60.0
"""Seconds looked back upon: long enough that one slow answer says little, short enough that a pause is seen."""


SHORT = 5.0
"""Fewer seconds after a pause tell no pace, if there is an earlier one."""


@dataclass(frozen=True)
class Reading:
    """A run at one moment, with what can be told from the moments before it."""

    progress: BulkProgress
    requests_per_second: float
    tokens_per_minute: float
    left_seconds: float | None
    """Until its end at this pace and after the present wait; ``None`` while nothing is known of a pace."""
    now: datetime

    @property
    def ends_at(self) -> datetime | None:
        if self.left_seconds is None:
            return None
        try:
            return self.now + timedelta(seconds=self.left_seconds)
        except OverflowError:
            return None

    @property
    def waits_until(self) -> datetime | None:
        """The end of the present wait, if it lies ahead."""
        until = self.progress.waits_until
        return until if until is not None and until > self.now else None


def begun(progress: BulkProgress) -> BulkProgress:
    """The same run at its start."""
    counted = ("answered", "failed", "requests", "input_tokens", "output_tokens", "rate_limited")
    return type(progress)(**{**vars(progress), **dict.fromkeys(counted, 0), "elapsed": 0.0})


class Meter:
    """Fed with every look at a run; gives each back with its pace."""

    def __init__(self) -> None:
        # Every look, with the seconds in which everything had waited until then.
        self._seen: deque[tuple[BulkProgress, float]] = deque()
        self._ahead = 0.0
        self._pace = 0.0

    def read(self, progress: BulkProgress, now: datetime | None = None) -> Reading:
        now = datetime.now(UTC) if now is None else now
        if not self._seen:
            self._seen.append((begun(progress), 0.0))
        last, held = self._seen[-1]
        held += min(max(progress.elapsed - last.elapsed, 0.0), self._ahead)
        until = progress.waits_until
        self._ahead = 0.0 if until is None else max((until - now).total_seconds(), 0.0)
        self._seen.append((progress, held))
        # One look beyond the window is kept, so that what is looked back upon is no shorter.
        while len(self._seen) > 2 and progress.elapsed - self._seen[1][0].elapsed >= WINDOW:
            self._seen.popleft()
        first, held_before = self._seen[0]
        took = progress.elapsed - first.elapsed
        if took <= 0:
            return Reading(progress, 0.0, 0.0, 0.0 if progress.left == 0 else None, now)
        tokens = progress.input_tokens + progress.output_tokens - first.input_tokens - first.output_tokens
        self._keep_pace(progress.done - first.done, took, held - held_before)
        return Reading(
            progress=progress,
            requests_per_second=(progress.requests - first.requests) / took,
            tokens_per_minute=tokens / took * 60,
            left_seconds=self._left(progress),
            now=now,
        )

    def _keep_pace(self, done: int, took: float, held: float) -> None:
        """The pace of the time in which something went; the one before while all waits, and until there is enough after that."""
        going = took - held
        tells_little = self._ahead > 0 or (held > 0 and going < SHORT)
        if going > 0 and (self._pace == 0 or not tells_little):
            self._pace = done / going

    def _left(self, progress: BulkProgress) -> float | None:
        if progress.left == 0:
            return 0.0
        return self._ahead + progress.left / self._pace if self._pace > 0 else None
