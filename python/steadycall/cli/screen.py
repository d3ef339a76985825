"""A bulk run while it goes on: a few lines that stay in place on a terminal, a plain line now and then elsewhere.

All of it goes to stderr, for stdout is the result's.
"""

from __future__ import annotations

import os
import sys
import time

from steadycall.cli.paint import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self

    from rich.console import RenderableType

    from steadycall.cli.meter import Reading


def view(every: float) -> Terminal | Log:
    """The view that fits where stderr goes."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Terminal()
    return Log(every)


def facts(reading: Reading, last: bool) -> list[str]:
    """What is told of a run besides its rows: first what went wrong, if anything did."""
    at, told = reading.progress, []
    if at.failed:
        told.append(f"{at.failed:,} failed")
    if at.rate_limited:
        told.append(f"{at.rate_limited:,} x 429")
    if not last:
        told += [f"{at.in_flight:,} in flight", f"{at.waiting:,} waiting"]
    return [*told, f"{reading.requests_per_second:.1f} requests/s", f"{reading.tokens_per_minute:,.0f} tokens/min"]


def ending(reading: Reading, last: bool) -> str:
    """When it will be over, or how long it took."""
    if last:
        return f"in {duration(reading.progress.elapsed)}"
    if reading.left_seconds is None or reading.ends_at is None:
        return "ETA unknown"
    return f"ETA {clock(reading.ends_at, reading.now)} (in {duration(reading.left_seconds)})"


def waiting(reading: Reading, last: bool) -> list[str]:
    """How long everything waits."""
    until = None if last else reading.waits_until
    return [] if until is None else [f"waits until {clock(until, reading.now)}"]


def clock(moment: datetime, now: datetime) -> str:
    """The local time of day, with the date unless that is today."""
    local = moment.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.astimezone().date() else "%Y-%m-%d %H:%M:%S")


class Log:
    """Lines for files and pipes: one at the start, one every few seconds, one at the end."""

    interval = 0.25

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, reading: Reading, *, last: bool = False) -> None:
        """Print a line, if it is time for one."""
        if not last and reading.progress.elapsed < self._next:
            return
        self._next = reading.progress.elapsed + self._every
        at = reading.progress
        told = [f"{at.done:,} of {at.rows:,} rows", *facts(reading, last)]
        told += [*waiting(reading, last), ending(reading, last)]
        self.say(f"{clock(reading.now, reading.now)} {', '.join(told)}")

    def say(self, text: str) -> None:
        """Print a line of another kind."""
        print(text, file=sys.stderr, flush=True)


class Terminal:
    """A bar and two lines below it, drawn anew in place; what is said stands above them."""

    interval = 0.1

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # Drawn by the loop that waits for the run, not by a thread of its own: a signal handler then meets no lock.
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, reading: Reading, *, last: bool = False) -> None:
        """Draw it, at most ten times a second."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if not last and time.monotonic() - self._drawn < self.interval:
            return
        self._drawn = time.monotonic()
        at = reading.progress
        top = Table.grid(padding=(0, 1))
        done = f"{at.done:,} of {at.rows:,} rows"
        top.add_row(ProgressBar(total=max(at.rows, 1), completed=at.done, width=30), done, ending(reading, last))
        lines: list[RenderableType] = [top, Text("  ".join(facts(reading, last)), overflow="ellipsis", no_wrap=True)]
        if not last:
            # The line is there, empty, when nothing waits: what jumps up and down cannot be read.
            lines.append(Text("".join(waiting(reading, last)), style="yellow"))
        self._live.update(Group(*lines), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, soft_wrap=True)
