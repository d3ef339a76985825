"""How long calls took, from a file: one number of seconds a line, or JSON lines."""

from __future__ import annotations

import codecs
import io
import json
import math
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Where a line that is an object keeps its seconds, if nobody says; the first is `CallRecord.elapsed`.
KEYS = ("elapsed", "seconds", "latency", "duration")


class BadLine(ValueError):
    """A line that holds no number of seconds."""


@dataclass(frozen=True)
class Latencies:
    """What a set of latencies comes to. A percentile is the least of them that so many do not exceed."""

    count: int
    p50: float
    p99: float
    maximum: float
    longer: int | None
    """How many took longer than the attempt timeout; ``None`` without one."""


def text_of(data: bytes) -> io.StringIO:
    """The lines of a file, as Windows shells write one too: with a mark in front, or as UTF-16.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return io.StringIO(data.decode("utf-16" if wide else "utf-8-sig"), newline=None)


def read_latencies(lines: Iterable[str], *, key: str | None = None, timeout: float | None = None) -> Latencies:
    """Read and sum up.

    Raises:
        BadLine: a line is none of the two forms, or there is none at all.
    """
    found = sorted(
        number(line.strip(), place, key)
        for place, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    )
    if not found:
        raise BadLine("there is no latency in it")
    return Latencies(
        count=len(found),
        p50=percentile(found, 50),
        p99=percentile(found, 99),
        maximum=found[-1],
        longer=None if timeout is None else sum(one > timeout for one in found),
    )


def percentile(ordered: list[float], share: int) -> float:
    """The nearest rank, which is one of the values and never between two."""
    return ordered[-(-len(ordered) * share // 100) - 1]


def number(line: str, place: int, key: str | None) -> float:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = line
    if isinstance(value, dict):
        keys = KEYS if key is None else (key,)
        value = next((value[name] for name in keys if name in value), None)
        if value is None:
            raise BadLine(f"line {place} has no field {' or '.join(map(repr, keys))} (--key names another)")
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    except OverflowError:  # a whole number of more digits than a float can hold
        found = math.inf
    if not math.isfinite(found) or found < 0:
        raise BadLine(f"line {place} holds no number of seconds")
    return found
