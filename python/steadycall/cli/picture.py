"""A plan for the terminal: figures, the waits as a table, and the line of time as bars."""

from __future__ import annotations

import shutil
import sys

from steadycall.cli import paint
from steadycall.cli.paint import number, seconds, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from steadycall.cli.latencies import Latencies
    from steadycall.cli.plan import Bar, Budget, Plan

    T = TypeVar("T")

LABEL, NOTE, MOST_ROWS = 18, 22, 40
LONGEST = {
    "hint": "a server asks for it (max_wait)",
    "call": "a call fails (its backoff)",
    "rate_limited": "the pace is limited (its backoff)",
    "validation": "an answer is not good enough (its backoff)",
}


def drawn(plan: Plan, latencies: Latencies | None) -> str:
    """All of it, as wide as the terminal and at most 120 columns."""
    color = paint.Paint()
    parts = [figures(plan), table(plan), line(plan, color)]
    if latencies is not None:
        parts.append(compared(plan, latencies))
    return "\n\n".join([color(paint.BOLD, repr(plan.policy)), *("\n".join(part) for part in parts if part)])


def row(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def figures(plan: Plan) -> list[str]:
    worst, requests = plan.worst, times(plan.worst.requests, "request")
    if worst.seconds is None or plan.unasked.seconds is None:
        rows = [row("worst case", f"{requests} for {plan.calls}; nothing bounds the seconds")]
        rows.append(row("", "set --attempt-timeout or --deadline"))
    else:
        rows = [row("worst case", f"{seconds(worst.seconds)} and {requests} for {plan.calls}")]
        if plan.unasked.seconds < worst.seconds:
            rows.append(row("", f"{seconds(plan.unasked.seconds)} when no server asks for a wait"))
    if worst.longest_wait is not None:
        rows.append(row("longest waits", f"when {LONGEST[worst.longest_wait]}"))
    return rows if plan.budget is None else [*rows, *fitting(plan, plan.budget)]


def fitting(plan: Plan, budget: Budget) -> list[str]:
    label = f"within {seconds(budget.within)}"
    if budget.fits:
        rows = [row(label, f"{plan.calls}: fits" if plan.chains == 1 else f"{plan.calls}: they fit")]
    else:
        rows = [row(label, f"{plan.calls}: too long")]
    if budget.most is None:
        return [*rows, row("", "the waits alone are longer: fewer tries or a lower max_wait would fit")]
    # Rounded down: what is named must fit.
    return [*rows, row("", f"an attempt timeout of at most {int(budget.most * 100) / 100:g} s fits")]


def table(plan: Plan) -> list[str]:
    if not plan.waits:
        return []
    rows = [row("waits", f"{'by its own backoff':<{NOTE}}when a server asks")]
    for wait, skipped in elided(plan.waits):
        if skipped:
            rows.append(row(f"... {skipped} more", ""))
        own = seconds(wait.most) if wait.least == wait.most else f"{number(wait.least)} to {seconds(wait.most)}"
        rows.append(row(f"after attempt {wait.after}", f"{own:<{NOTE}}up to {seconds(wait.asked)}"))
    return rows


def line(plan: Plan, color: paint.Paint) -> list[str]:
    """The attempts and waits, one below the other, each where it stands in time."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120) - LABEL - NOTE - 2 if sys.stdout.isatty() else 58
    width = max(width, 10)
    attempt, wait = ("█", "░") if paint.writes("█░") else ("#", ".")
    rows = [title(plan)]
    for bar, skipped in elided(plan.line):
        if skipped:
            rows.append(f"... {skipped} more")
        left, right = (place(moment, plan.end, width) for moment in (bar.began, bar.ended))
        left = min(left, width - 1)
        length = max(right - left, 1)
        sign = (wait if bar.is_wait else attempt) if bar.ended > bar.began else "|"
        shade = paint.YELLOW if bar.is_wait else paint.BLUE
        note = f"{number(bar.began)} to {seconds(bar.ended)}" if bar.ended > bar.began else f"at {seconds(bar.began)}"
        rows.append(row(label(plan, bar), " " * left + color(shade, sign * length) + " " * (width - left - length)))
        rows[-1] = f"{rows[-1]}  {note}".rstrip()
    return [*rows, row("then", plan.because)]


def title(plan: Plan) -> str:
    if plan.is_full:
        return "At the worst: every attempt fails after as long as it may take, every wait is the longest"
    return "When every attempt fails at once, and every wait is the longest"


def label(plan: Plan, bar: Bar) -> str:
    if bar.is_wait:
        return "  wait"
    return f"attempt {bar.attempt}" if plan.chains == 1 else f"call {bar.chain}, {bar.attempt}"


def place(moment: float, end: float, width: int) -> int:
    return 0 if end == 0 else round(moment / end * width)


def elided(rows: Sequence[T]) -> Iterator[tuple[T, int]]:
    """The first rows and the last, each with the number of those left out before it."""
    left_out = len(rows) - MOST_ROWS
    for index, one in enumerate(rows):
        if left_out <= 0 or index < MOST_ROWS - 2:
            yield one, 0
        elif index >= len(rows) - 2:
            yield one, left_out if index == len(rows) - 2 else 0


def compared(plan: Plan, found: Latencies) -> list[str]:
    """Latencies beside the attempt timeout."""
    timeout = plan.policy.attempt_timeout
    rows = [row("latencies", f"of {times(found.count, 'call')}")]
    for name, value in (("p50", found.p50), ("p99", found.p99), ("maximum", found.maximum)):
        told = f"{seconds(value):<12}"
        if timeout is not None and value > 0:
            told += f"the attempt timeout is {float(timeout) / value:.2f} times that"  # type: ignore[arg-type]  # a number
        rows.append(row(f"  {name}", told.rstrip()))
    if found.longer is None:
        return [*rows, row("", "there is no attempt timeout to compare them with: set --attempt-timeout")]
    share = found.longer / found.count
    return [*rows, row("", f"{found.longer} of {found.count} ({share:.2%}) took longer than the attempt timeout")]
