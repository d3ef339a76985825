"""How a call of a unit ended: from the last failure, and why it was not tried again, to an outcome."""

from __future__ import annotations

from ._chain import walk
from ._errors import CallError
from ._exceptions import given_up
from ._judge import our_answer
from ._kinds import FailureKind, StopReason
from ._native import failure
from ._units_record import UnitOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._records import Failure

_NO_ANSWER = {failure(name, "maybe").reason for name in ("not_json", "truncated", "empty_body")}
_CIRCUIT_OPEN = failure("circuit_open", "no").reason


class End:
    """How a unit, or one of its calls, ended."""

    __slots__ = ("answer", "cause", "error", "failed", "for_want", "outcome", "saved", "stop")

    def __init__(
        self,
        outcome: UnitOutcome,
        cause: str | None = None,
        error: BaseException | None = None,
        *,
        failed: Failure | None = None,
        stop: StopReason | None = None,
        answer: Any = None,
        saved: Any = None,
    ) -> None:
        self.outcome = outcome
        self.cause = cause
        self.error = error
        self.failed = failed
        """The last failure of its last call."""
        self.stop = stop
        self.for_want = False
        """Its call could go on but for the request it was refused."""
        self.answer = answer
        self.saved = saved

    def is_among(self, stop_on: frozenset[str]) -> bool:
        """Whether its call ended by something that concerns the other units too."""
        ways = {self.stop, *(() if self.failed is None else (self.failed.kind,))}
        if self.failed is not None and self.failed.reason == _CIRCUIT_OPEN:
            ways.add(StopReason.BREAKER_OPEN)  # a breaker of somebody else's
        return not stop_on.isdisjoint(ways - {None})


def of_call(
    error: BaseException,
    failed: Failure | None,
    final: bool,
    stop: StopReason | None,
    refused: UnitOutcome | None,
    left: int | None,
) -> End:
    """How a call ended that gave no answer.

    Args:
        error: what it raised.
        failed: its last failure; ``None`` when no attempt was made.
        final: a layer below gave up on it.
        stop: why the group's policy made no further attempt.
        refused: why the last request was refused, if it was not for want of requests.
        left: requests left of the unit.
    """
    if final:
        stop = _stop_below(error)
    for_want = stop == StopReason.REQUEST_BUDGET
    if final and stop is None and failed is not None and failed.kind != FailureKind.PERMANENT:
        for_want = refused is not None or left == 0
    outcome = (refused or UnitOutcome.BUDGET_EXHAUSTED) if for_want else _outcome(failed, stop)
    end = End(outcome, said(error, failed), error, failed=failed, stop=stop)
    end.for_want = for_want
    return end


def _stop_below(error: BaseException) -> StopReason | None:
    """Why the layer below gave up; ``None`` where a policy below ran a function, whose own exception does not say."""
    below = given_up(error)
    if below is not None:
        return below.stop_reason
    told = next(filter(None, (our_answer(found) for _, found in walk(error))), {})
    try:
        return StopReason(told.get("x-steadycall-stop", ""))
    except ValueError:
        return None


def _outcome(failed: Failure | None, stop: StopReason | None) -> UnitOutcome:
    if stop in (StopReason.DEADLINE, StopReason.MIN_ATTEMPT):
        return UnitOutcome.DEADLINE
    if failed is not None and is_format(failed):
        return UnitOutcome.FORMAT_FAILED
    switched_off = stop == StopReason.NOT_RETRYABLE
    if failed is not None and (failed.kind == FailureKind.PERMANENT or switched_off):
        return UnitOutcome.PERMANENT
    return UnitOutcome.TRANSPORT_EXHAUSTED


def sent_nothing(error: BaseException) -> bool:
    """Whether a layer below was refused its first request: by a queue, a breaker, a limit."""
    below = given_up(error)
    return below is not None and not below.attempts and below.sent == "no"


def is_format(failed: Failure) -> bool:
    """Whether an answer came in the wrong form, unfinished or empty: another answer may be better."""
    return failed.kind == FailureKind.VALIDATION or failed.reason in _NO_ANSWER


def said(error: BaseException, failed: Failure | None) -> str:
    """What happened, without what foreign exceptions may quote."""
    if isinstance(error, CallError):
        return error.why
    return type(error).__name__ if failed is None else f"{type(error).__name__}: {failed.reason}"
