"""What the terminal allows: colours, signs beyond ASCII, and how times and counts are written."""

from __future__ import annotations

import json
import math
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

LONG = 120.0
"""Seconds from which on people reckon in minutes."""

BOLD, DIM, GREEN, RED, YELLOW, BLUE = "1", "2", "32", "31", "33", "34"


class Paint:
    """Colours for a terminal; nothing for a pipe, a file, ``NO_COLOR`` or a terminal that has none."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def __call__(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if text and self.is_on else text

    @property
    def is_on(self) -> bool:
        """Whether there are colours now; an empty ``NO_COLOR`` counts for nothing, as https://no-color.org says."""
        stream = sys.stdout if self._stream is None else self._stream
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def writes(signs: str, stream: TextIO | None = None) -> bool:
    """Whether a stream's encoding has these signs."""
    stream = sys.stdout if stream is None else stream
    try:
        signs.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def number(value: float) -> str:
    """A number as people write it: at most three decimals, none that say nothing."""
    return f"{round(value, 3):.15g}"


def seconds(value: float) -> str:
    """The same with its unit."""
    return f"{number(value)} s"


def long(value: float) -> str:
    """The same, with larger units besides where seconds say little."""
    if math.isinf(value):
        return "longer than a number can hold"
    return f"{seconds(value)} ({duration(value)})" if value >= LONG else seconds(value)


def times(count: int, one: str) -> str:
    """A count with its noun."""
    return f"{count} {one}" if count == 1 else f"{count:,} {one}s"


def duration(value: float) -> str:
    """A longer time in its two largest units: ``45 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    left = round(value)
    for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= size:
            rest = left % size // smaller
            return f"{left // size:,} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{left} s"


def money(value: float) -> str:
    """An amount: with cents, and with two figures that say something where it is less than one."""
    places = 2 if value == 0 or value >= 1 or not math.isfinite(value) else 1 - math.floor(math.log10(value))
    return f"{value:,.{places}f}"


def as_json(data: dict[str, Any]) -> str:
    """One JSON object; a number that JSON does not have is null."""
    return json.dumps(_plain(data), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
