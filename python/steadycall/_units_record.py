"""What came of a unit of work: its outcome, its cost, and what a caller gets back."""

from __future__ import annotations

from enum import StrEnum

from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._kinds import FailureKind, StopReason


class UnitOutcome(StrEnum):
    """How a unit of work ended; each unit has exactly one."""

    SAVED = "saved"
    """The answer was good, and ``save`` took it."""
    FORMAT_FAILED = "format_failed"
    """Every answer that may be asked for came in the wrong form, unfinished or empty."""
    TRANSPORT_EXHAUSTED = "transport_exhausted"
    """The retries of the transport are used up, or none of them would have helped in time."""
    PERMANENT = "permanent"
    """No retry can fix what the call ended with."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """The unit's requests are used up, or those of a scope around it."""
    DEADLINE = "deadline"
    """No call may begin any more, or the call took longer than ``call_limit`` or a deadline of its own."""
    STOPPED = "stopped"
    """The group was stopped: nothing was begun any more, or an answer that came late was discarded."""
    SAVE_FAILED = "save_failed"
    """The answer was good and ``save`` failed, or ``alive`` did; the answer is on the result."""
    TARGET_GONE = "target_gone"
    """What the answer was for is no more, so it was discarded."""


@frozen
class UnitRecord:
    """One unit of work that has settled, for ``on_unit``: what it cost and what came of it, without the answer."""

    name: str | None
    """The name that ``run`` was given."""
    outcome: UnitOutcome
    """How it ended."""
    cause: str | None
    """Why, in one sentence without prompts and answers; ``None`` when it was saved."""
    requests: int
    """Requests of all its calls; a run of ``call`` that asks by no layer of steadycall counts as one."""
    call_seconds: float
    """Seconds its calls took, waits and validation included, and time in line before the first permit not."""
    usage: dict[str, int] | None
    """Tokens of all answers that ``call`` gave, failed validation included; ``None`` where none of them told any."""
    kind: FailureKind | None
    """What kind of failure its last call ended with, if it failed."""
    stop_reason: StopReason | None
    """Why its last call was not tried again, if it failed."""


@frozen
class UnitResult:
    """What ``UnitGroup.run`` gives: the outcome, and what is left of the work."""

    record: UnitRecord
    """What ``on_unit`` was told."""
    answer: Any
    """The validated answer, if it was saved or its saving failed; a discarded one is not kept."""
    saved: Any
    """What ``save`` gave."""
    error: BaseException | None
    """The exception it ended with; ``None`` when it was saved, or nothing was raised."""

    @property
    def outcome(self) -> UnitOutcome:
        """How it ended."""
        return self.record.outcome

    @property
    def cause(self) -> str | None:
        """Why, in one sentence; ``None`` when it was saved."""
        return self.record.cause

    @property
    def requests(self) -> int:
        """Requests it made."""
        return self.record.requests

    @property
    def call_seconds(self) -> float:
        """Seconds its calls took."""
        return self.record.call_seconds

    @property
    def usage(self) -> dict[str, int] | None:
        """Tokens of all answers."""
        return self.record.usage

    def __repr__(self) -> str:
        # Without the answer: it is as long as it likes, and nobody else's business.
        return f"<UnitResult: {self.outcome}, requests={self.requests}, cause={self.cause!r}>"
