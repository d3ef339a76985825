"""What a client's gates and streams cost: CPU of the client's process, beside the same without gates, and pure Rust.

    python benches/gates.py [--rounds N] [--output PATH]

Each measurement is a process of its own against one server (`src/server.rs`). A round measures every candidate of every
work once, in another order each round; a ratio is taken within a round and the median over rounds is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from runner import build, serving
from worker import PAYLOAD, start

OUTPUT = Path(__file__).parent / "GATES.md"
FLOOR = "pure Rust"


@dataclass(frozen=True)
class Work:
    """`of` costs at most `most` times what `over` costs, in CPU; or, without `over`, so many KiB a call."""

    name: str
    title: str
    mode: str
    path: str
    count: int
    of: str
    over: str | None
    most: float


WORKS = (
    Work("gates", "sync, 1 thread: all gates on, beside none", "sync1", "/small", 12000, "gates on", "gates off", 1.15),
    Work(
        "gates64",
        "async, 64 in flight: all gates on, beside none",
        "async64",
        "/small",
        25600,
        "gates on",
        "gates off",
        1.15,
    ),
    Work("herd", "1,000 in flight, all gates on: memory a call", "async1000", "/slow50", 1000, "gates on", None, 40.0),
    Work(
        "stream", "a stream of 1,000 events, sync, beside pure Rust", "stream1", "/stream", 40, "gates on", FLOOR, 1.5
    ),
    Work("streams", "the same, async, 16 at once", "stream16", "/stream", 160, "async gates on", FLOOR, 1.5),
)
Sample = dict[str, float]


def settings(candidate: str) -> dict[str, Any]:
    from steadycall import CircuitBreaker, ConcurrencyLimit, RateLimit, RetryBudget, TokenBudget

    if candidate.endswith("off"):
        return {"retry_budget": None}
    return {
        "concurrency": ConcurrencyLimit(100_000),
        "rate": RateLimit(10**9, 10**13),
        "token_budget": TokenBudget(10**15),
        "breaker": CircuitBreaker(),
        "retry_budget": RetryBudget(),
    }


def measure(candidate: str, mode: str, base: str, path: str, count: int) -> dict[str, float | None]:
    """One measurement in this process."""
    import steadycall

    payload = json.loads(PAYLOAD.read_bytes())
    if mode in ("sync1", "stream1"):
        client = steadycall.Client(base, **settings(candidate))

        def send() -> None:
            if mode == "sync1":
                assert client.call(path, payload).json["candidates"]
                return
            with client.stream(path, payload) as events:
                assert sum(len(event.text) for event in events) == 5_000

        for _ in range(max(1, count // 5)):
            send()
        finish = start()
        for _ in range(count):
            send()
        return finish(count)
    return asyncio.run(together(steadycall.AsyncClient(base, **settings(candidate)), mode, payload, path, count))


async def together(client: Any, mode: str, payload: Any, path: str, count: int) -> dict[str, float | None]:
    lanes = int(mode.removeprefix("async").removeprefix("stream"))

    async def send() -> None:
        if mode.startswith("async"):
            assert (await client.call(path, payload)).json["candidates"]
            return
        async with client.stream(path, payload) as events:
            assert sum([len(event.text) async for event in events]) == 5_000

    async def lane(share: int) -> None:
        for _ in range(share):
            await send()

    await send()
    if count > lanes:
        await asyncio.gather(*(lane(max(1, count // lanes // 5)) for _ in range(lanes)))
    finish = start()
    await asyncio.gather(*(lane(count // lanes) for _ in range(lanes)))
    return finish(count)


def sample(binaries: Path, work: Work, candidate: str, base: str) -> Sample:
    """The same in a process of its own."""
    count = str(work.count)
    if candidate == FLOOR:
        warmup = str(max(1, work.count // 5))
        command = [str(binaries / "floor"), f"{base}{work.path}", work.mode, count, warmup]
    else:
        command = [sys.executable, __file__, "--measure", candidate, work.mode, base, work.path, count]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {
        "cpu_us": said["cpu_s"] / work.count * 1e6,
        "kib": ((said["peak_kib"] or 0) - (said["rss_kib"] or 0)) / work.count,
    }


def report(rounds: dict[str, list[dict[str, Sample]]], setting: list[str]) -> str:
    lines = [
        "# Gates and streams",
        "",
        "Written by `gates.py`, whose head says what is measured.",
        "",
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(rounds[WORKS[0].name])} rounds.",
        *(f"- {line}" for line in setting),
        "",
        "Median [lowest-highest round]; CPU in microseconds a call, or a stream.",
        "",
        "| what | goal | measured | | CPU | beside |",
        "|---|---|---|---|---|---|",
    ]
    for work in WORKS:
        found = rounds[work.name]
        ours = [one[work.of] for one in found]
        if work.over is None:
            figures, unit = [one["kib"] for one in ours], "KiB"
            beside = ""
        else:
            theirs = [one[work.over] for one in found]
            figures, unit = [a["cpu_us"] / b["cpu_us"] for a, b in zip(ours, theirs, strict=True)], "x"
            beside = f"{statistics.median(one['cpu_us'] for one in theirs):,.0f}"
        middle = statistics.median(figures)
        held = "reached" if middle <= work.most else "**missed**"
        measured = f"{middle:.2f} [{min(figures):.2f}-{max(figures):.2f}] {unit}"
        cpu = f"{statistics.median(one['cpu_us'] for one in ours):,.0f}"
        lines.append(f"| {work.title} | at most {work.most:g} {unit} | {measured} | {held} | {cpu} | {beside} |")
    return "\n".join([*lines, ""])


def main() -> None:
    options = argparse.ArgumentParser(description="Measure what a client's gates and streams cost.")
    options.add_argument("--rounds", type=int, default=7, help="rounds, 7 by default")
    options.add_argument("--output", type=Path, default=OUTPUT, help="where the table goes")
    options.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        candidate, mode, base, path, count = given.measure
        print(json.dumps(measure(candidate, mode, base, path, int(count))))
        return
    setting = machine.setting()
    rounds: dict[str, list[dict[str, Sample]]] = {work.name: [] for work in WORKS}
    binaries, order = build(), random.Random(1)
    with serving(binaries) as base:
        for number in range(given.rounds):
            for work in WORKS:
                candidates = [one for one in (work.of, work.over) if one is not None]
                order.shuffle(candidates)
                rounds[work.name].append({one: sample(binaries, work, one, base) for one in candidates})
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr)
    text = report(rounds, setting)
    given.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
