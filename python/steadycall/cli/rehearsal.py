"""What a policy does with failures, found by letting it: the real engine, on a clock that stands still.

Nothing here knows a rule of retrying. An operation fails as it is told to, and what the policy answers is noted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import click

from steadycall import CallRecord, ConfigError, DeadlineExceeded, Failure, Policy, current_attempt
from steadycall.testing import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from steadycall import AttemptRecord, StopReason

# The least and the most that dice may show: a draw is below 1.
LEAST, MOST = 0.0, 1 - 2**-53


class Judged(Exception):
    """A failure that is already judged."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass(frozen=True)
class Rehearsal:
    """One call that failed each time: its attempts, and why it ended."""

    attempts: tuple[AttemptRecord, ...]
    failures: tuple[Failure, ...]
    """What the policy took each failure for."""
    elapsed: float
    stop_reason: StopReason | None
    because: str
    """Why it ended, as a part of a sentence."""


def rehearse(policy: Policy, fail: Callable[[int], BaseException], *, draw: float, full: bool = False) -> Rehearsal:
    """Let ``policy`` call what fails each time.

    Args:
        policy: its own ``retry_if`` is not asked.
        fail: gets the number of the attempt and gives what it fails with; a ``Judged`` counts as it says.
        draw: what the dice show each time.
        full: every attempt lasts as long as it may, rather than no time at all.

    Raises:
        UsageError: its times add up to more than a clock can show.
    """
    clock, seen, ends = FakeClock(), list[Failure](), list[CallRecord]()
    number = 0

    def operation() -> None:
        nonlocal number
        number += 1
        limit = current_attempt().timeout
        if full and limit is not None:
            clock.advance(limit)
        raise fail(number)

    def gate(failure: Failure, error: BaseException) -> Failure:
        seen.append(error.failure if isinstance(error, Judged) else failure)
        return seen[-1]

    bound = policy.replace(retry_if=gate).bind(sleep=clock.sleep, clock=clock, rng=_Loaded(draw), on_end=ends.append)
    try:
        bound.call(operation)
    except ConfigError:
        raise click.UsageError("the times of this policy add up to more seconds than a clock can show") from None
    except Exception as error:
        why = error.why if isinstance(error, DeadlineExceeded) else error.__notes__[-1]
    record = ends[0]
    return Rehearsal(record.attempts, tuple(seen), record.elapsed, record.stop_reason, _because(why))


def _because(told: str) -> str:
    """The end of an explanation; in front of it stand the failure and the attempts."""
    return told.rpartition(": ")[2].rstrip(".")


class _Loaded(random.Random):
    """Dice that always show the same."""

    def __init__(self, draw: float) -> None:
        super().__init__()
        self._draw = draw

    def random(self) -> float:
        return self._draw
