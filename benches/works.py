"""What is measured and what is to be reached: the works, and the goals of the issue, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import clients

FLOOR = "pure Rust"
OURS = "steadycall"


@dataclass(frozen=True)
class Work:
    """One kind of traffic. `pilot` is the number of requests of the calibration; `fixed` leaves calibration out."""

    name: str
    title: str
    mode: str
    path: str
    pilot: int
    fixed: bool = False
    without: tuple[str, ...] = ()

    @property
    def in_flight(self) -> int:
        return int(self.mode.removeprefix("async").removeprefix("sync"))

    @property
    def clients(self) -> tuple[str, ...]:
        table = clients.ASYNC if self.mode.startswith("async") else clients.SYNC
        return (FLOOR, *(name for name in table if name not in self.without))


WORKS = (
    Work("sync", "sync, 1 thread, small answer", "sync1", "/small", pilot=60),
    Work("threads", "sync, 8 threads, small answer", "sync8", "/small", pilot=160),
    Work("async1", "async, 1 in flight, small answer", "async1", "/small", pilot=60),
    Work("async64", "async, 64 in flight, small answer", "async64", "/small", pilot=128),
    Work("async512", "async, 512 in flight, small answer", "async512", "/small", pilot=512),
    Work("large", "sync, 1 thread, 200 KB answer", "sync1", "/large", pilot=20),
    Work("large64", "async, 64 in flight, 200 KB answer", "async64", "/large", pilot=64),
    # httpx needs half a minute for this one.
    Work("herd", "1,000 at once, 50 ms server", "async1000", "/slow50", pilot=1000, fixed=True, without=("httpx",)),
)
# These measure processes rather than traffic: see startup.py.
STARTUP = {"import": "import, beyond `import urllib.error, logging, enum`", "first": "first http call of a process"}
ONCE = {"modules": "modules first imported during a call", "wheel": "wheel size"}
NAMES = (*(work.name for work in WORKS), *STARTUP, *ONCE)


@dataclass(frozen=True)
class Goal:
    """`metric` of `of`, divided by that of `over` in the same round where there is one, is `most` or `least` this."""

    work: str
    metric: str
    what: str
    of: str = OURS
    over: str | None = None
    most: float | None = None
    least: float | None = None
    stretch: float | None = None
    unit: str = "x"

    def reached(self, value: float) -> bool:
        return value <= self.most if self.most is not None else value >= (self.least or 0.0)

    def __str__(self) -> str:
        bound = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        return f"{bound} {self.unit}".strip() + (f" (stretch {self.stretch:g})" if self.stretch is not None else "")


def _of_floor(work: str, most: float, stretch: float | None = None) -> Goal:
    return Goal(work, "cpu_us", "CPU, of pure-Rust reqwest's", over=FLOOR, most=most, stretch=stretch)


def _less_than(rival: str, work: str, least: float) -> Goal:
    return Goal(work, "cpu_us", f"CPU, times less than {rival}", of=rival, over=OURS, least=least)


GOALS = (
    _of_floor("sync", 1.3),
    _less_than("urllib", "sync", 5.0),
    _less_than("httpx", "sync", 9.0),
    _less_than("pyreqwest", "sync", 1.4),
    _of_floor("threads", 1.5),
    _of_floor("async64", 2.2, stretch=1.5),
    _less_than("aiohttp", "async64", 3.3),
    _less_than("pyreqwest", "async64", 1.7),
    _of_floor("async512", 2.2, stretch=1.5),
    _less_than("aiohttp", "async512", 3.3),
    _less_than("pyreqwest", "async512", 1.7),
    Goal("herd", "wall_ms", "wall, of aiohttp's", over="aiohttp", most=0.5),
    Goal("herd", "peak_kib", "peak memory growth per call", most=36.0, unit="KiB"),
    _of_floor("large", 1.25),
    Goal("import", "wall_ms", "wall", most=5.0, unit="ms"),
    Goal("modules", "count", "modules, asyncio apart", most=0.0, unit=""),
    Goal("wheel", "mb", "file size", most=2.5, unit="MB"),
)
