"""What a policy may come to: its worst case, its waits one by one, and the attempts of a call on a line of time.

The figures are asked of the policy, and the line is what its engine does when every attempt fails: nothing is
computed here that the library decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from steadycall import BudgetError, Failure, FailureKind, Hint, Policy, current_attempt
from steadycall.cli.rehearsal import LEAST, MOST, Judged, rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steadycall._policy import WorstCase

ONE = "one call"
HINT = "hint"


@dataclass(frozen=True)
class Bar:
    """A stretch of the line of time: an attempt, or the wait after one."""

    chain: int
    attempt: int
    is_wait: bool
    began: float
    ended: float


@dataclass(frozen=True)
class Wait:
    """The wait after a failed attempt: by the policy's own backoff, and at the most when a server asks."""

    after: int
    least: float
    most: float
    asked: float


@dataclass(frozen=True)
class Plan:
    """All of it for one policy."""

    policy: Policy
    chains: int
    worst: WorstCase
    unasked: WorstCase
    """The worst case when no server asks for a wait."""
    waits: tuple[Wait, ...]
    line: tuple[Bar, ...]
    because: str
    """Why the call ends there."""
    budget: Budget | None

    @property
    def is_full(self) -> bool:
        """Whether the attempts on the line last as long as they may; else they fail at once."""
        return self.policy.attempt_timeout is not None

    @property
    def calls(self) -> str:
        return ONE if self.chains == 1 else f"{self.chains} calls one after the other"

    @property
    def end(self) -> float:
        return self.line[-1].ended


@dataclass(frozen=True)
class Budget:
    """Whether it fits into the time there is."""

    within: float
    fits: bool
    most: float | None
    """The longest attempt timeout that would fit; ``None`` when the waits alone do not."""


def plan_of(policy: Policy, *, chains: int, within: float | None) -> Plan:
    """Look at a policy from all sides.

    Raises:
        ConfigError: ``chains`` or ``within`` makes no sense.
    """
    worst = policy.worst_case(chains)
    longest = longest_waits(policy)
    line, because = timeline(policy, longest, chains)
    return Plan(
        policy=policy,
        chains=chains,
        worst=worst,
        unasked=policy.worst_case(chains, hints=False),
        waits=waits_of(policy, longest),
        line=line,
        because=because,
        budget=None if within is None else budget_of(policy, within, chains),
    )


def budget_of(policy: Policy, within: float, chains: int) -> Budget:
    try:
        most = policy.max_attempt_timeout(within, chains=chains)
    except BudgetError:
        most = None
    try:
        policy.require_within(within, chains=chains)
    except BudgetError:
        return Budget(within, False, most)
    return Budget(within, True, most)


# Waits


def judged(kind: str, asked: float = 0.0) -> Judged:
    """A failure of a kind, with the wait a server asks for."""
    hint = Hint(seconds=asked, source="Retry-After") if asked > 0 else None
    told = {"status": None, "provider_code": None, "sent": "maybe", "reason": "Made up.", "dialect": "generic"}
    return Judged(Failure(kind=FailureKind(kind), retryable=True, hint=hint, **told))  # type: ignore[arg-type]  # one mapping for many types


def failing(policy: Policy, what: str) -> Judged:
    """A failure of a kind, or one with the longest hint that is honoured."""
    return judged("rate_limited", float(policy.max_wait)) if what == HINT else judged(what)  # type: ignore[arg-type]  # a policy made here has plain numbers


def measured(policy: Policy, what: str, draw: float) -> tuple[float, ...]:
    """The waits of one round of tries in which every attempt fails like that, whatever the deadline leaves."""
    alone = policy.replace(deadline=None, min_attempt=0.0, validation_tries=None)
    found = rehearse(alone, lambda _: failing(policy, what), draw=draw)
    return tuple(record.wait for record in found.attempts if record.wait is not None)


def longest_waits(policy: Policy) -> dict[str, tuple[float, ...]]:
    """For each thing that may go wrong in a round of tries, the longest wait after each attempt."""
    kinds = ["call", "rate_limited", *(["validation"] if policy.validation_tries is None else []), HINT]
    return {what: measured(policy, what, MOST) for what in kinds}


def waits_of(policy: Policy, longest: dict[str, tuple[float, ...]]) -> tuple[Wait, ...]:
    least = measured(policy, "call", LEAST)
    rows = zip(least, longest["call"], longest[HINT], strict=True)
    return tuple(Wait(number, *map(tidy, row)) for number, row in enumerate(rows, 1))


def tidy(value: float) -> float:
    """A wait without the last bit that dice below 1 take off it."""
    return round(value, 9)


# The line


def timeline(policy: Policy, longest: dict[str, tuple[float, ...]], chains: int) -> tuple[tuple[Bar, ...], str]:
    """A call at its worst, ``chains`` times: after each attempt comes the longest wait the deadline leaves time for."""

    def fail(number: int) -> Judged:
        place = (number - 1) % policy.tries
        if place == policy.tries - 1:
            # The last of its round: only an answer that is not good enough begins another.
            return failing(policy, "call" if policy.validation_tries is None else "validation")
        after = {what: (*waits, 0.0)[min(place, len(waits))] for what, waits in longest.items()}
        left = current_attempt().remaining
        fitting = {what: wait for what, wait in after.items() if left is None or wait < left}
        return failing(policy, max(fitting or after, key=after.__getitem__))

    found = rehearse(policy, fail, draw=MOST, full=policy.attempt_timeout is not None)
    bars, now = [], 0.0
    for chain in range(1, chains + 1):
        for record in found.attempts:
            bars.append(Bar(chain, record.number, False, tidy(now), tidy(now := now + record.elapsed)))
            if record.wait:
                bars.append(Bar(chain, record.number, True, tidy(now), tidy(now := now + record.wait)))
    return tuple(bars), found.because
