"""What a wrapped call that succeeds costs, beside tenacity, stamina and backoff: nanoseconds per call, no network.

    python benches/wrapped.py [--rounds N] [--output PATH]

One process measures everything: each round times every candidate once, in another order, those of one work as
neighbours. A ratio is taken within a round and the median over rounds is reported. The function does nothing, and its
bare call is a candidate too: the overhead of a library is what it adds to that.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import backoff
import machine
import stamina
import tenacity

import steadycall

OUTPUT = Path(__file__).parent / "WRAPPED.md"
RIVALS = ("tenacity", "stamina", "backoff")
# Long enough for a clock of some 50 ns, short enough that the machine is the same for all candidates of a round.
SLICE_NS = 60_000_000


def plain() -> int:
    return 1


async def coroutine() -> int:
    return 1


async def bare_timeout() -> int:
    async with asyncio.timeout(30):
        return await coroutine()


def candidates(fn: Any) -> dict[str, Callable[[], Any]]:
    """Each library around `fn`, five tries and its usual waits; the same text for both modes."""
    return {
        "bare": fn,
        "steadycall": steadycall.retry(tries=5)(fn),
        "tenacity": tenacity.retry(stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_random_exponential())(fn),
        "stamina": stamina.retry(on=OSError, attempts=5, timeout=None)(fn),
        "backoff": backoff.on_exception(backoff.expo, OSError, max_tries=5)(fn),
    }


SYNC = candidates(plain)
ASYNC = candidates(coroutine)
LIMITED: dict[str, Callable[[], Awaitable[int]]] = {
    "bare": coroutine,
    "asyncio.timeout": bare_timeout,
    "steadycall": steadycall.retry(tries=5, attempt_timeout=30, deadline=60)(coroutine),
}


@dataclass(frozen=True)
class Goal:
    """In `work` our overhead is at most `most` times that of `over`; of the fastest rival where that is `None`."""

    work: str
    most: float
    over: str | None = None


GOALS = (Goal("sync", 0.2), Goal("async", 0.2), Goal("async with limits", 1.3, over="asyncio.timeout"))
Figures = dict[tuple[str, str], list[float]]


def timed(fn: Callable[[], Any], runs: int) -> float:
    began = perf_counter_ns()
    for _ in range(runs):
        fn()
    return (perf_counter_ns() - began) / runs


async def atimed(fn: Callable[[], Awaitable[Any]], runs: int) -> float:
    began = perf_counter_ns()
    for _ in range(runs):
        await fn()
    return (perf_counter_ns() - began) / runs


async def measure(rounds: int) -> Figures:
    """Nanoseconds of each candidate of each work, round by round; the first, which warms up, is left out."""
    works = {"sync": SYNC, "async": ASYNC, "async with limits": LIMITED}
    all_of_them = [(work, name, fn) for work, table in works.items() for name, fn in table.items()]
    runs = dict.fromkeys(((work, name) for work, name, _ in all_of_them), 200)
    figures: Figures = {key: [] for key in runs}
    order = random.Random(0)
    for round_ in range(rounds + 1):
        order.shuffle(all_of_them)
        # Stable, so that the candidates of one work stay neighbours.
        for work, name, fn in sorted(all_of_them, key=lambda candidate: candidate[0]):
            took = timed(fn, runs[work, name]) if work == "sync" else await atimed(fn, runs[work, name])
            if round_ == 0:
                runs[work, name] = max(1000, int(SLICE_NS / took))
            else:
                figures[work, name].append(took)
    return figures


def ratio(figures: Figures, goal: Goal) -> tuple[list[float], str]:
    """Our overhead over the other one's, round by round, and the other one's name."""
    over = goal.over or min(RIVALS, key=lambda name: statistics.median(figures[goal.work, name]))
    names = ("steadycall", over, "bare")
    rounds = zip(*(figures[goal.work, name] for name in names), strict=True)
    return [(ours - bare) / (theirs - bare) for ours, theirs, bare in rounds], over


def report(figures: Figures, rounds: int, setting: list[str]) -> str:
    rivals = ", ".join(f"{name} {machine.package(name)}" for name in RIVALS)
    lines = [
        "# A wrapped call that succeeds",
        "",
        "Written by `wrapped.py`. The function does nothing; the overhead is what is added to its bare call.",
        "",
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {rounds} rounds of {SLICE_NS // 1_000_000} ms a candidate.",
        *(f"- {line}" for line in setting),
        f"- Rivals: {rivals}.",
        "",
        "Median [lowest-highest round].",
        "",
        "| work | overhead of steadycall | goal | measured | |",
        "|---|---|---|---|---|",
    ]
    for goal in GOALS:
        found, over = ratio(figures, goal)
        held = sum(one <= goal.most for one in found)
        verdict = "reached" if statistics.median(found) <= goal.most else "**missed**"
        what = f"at most {goal.most:g} x"
        lines.append(f"| {goal.work} | of {over}'s | {what} | {spread(found)} x | {verdict} ({held} of {rounds}) |")
    lines += ["", "| work | function under | ns per call |", "|---|---|---|"]
    lines += [f"| {work} | {name} | {spread(found)} |" for (work, name), found in figures.items()]
    return "\n".join([*lines, ""])


def spread(found: list[float]) -> str:
    middle, low, high = (f"{one:,.0f}" if one >= 10 else f"{one:.2f}" for one in three(found))
    return f"{middle} [{low}-{high}]"


def three(found: list[float]) -> tuple[float, float, float]:
    return statistics.median(found), min(found), max(found)


def main() -> None:
    options = argparse.ArgumentParser(description="Measure what a wrapped call that succeeds costs.")
    options.add_argument("--rounds", type=int, default=11, help="rounds, 11 by default")
    options.add_argument("--output", type=Path, default=OUTPUT, help="where the table goes")
    given = options.parse_args()
    setting = machine.setting()
    table = report(asyncio.run(measure(given.rounds)), given.rounds, setting)
    given.output.write_text(table)
    print(table)


if __name__ == "__main__":
    main()
