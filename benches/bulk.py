"""What a row of a bulk run costs, beside the usual script: asyncio, aiohttp, a token bucket, a line for each result.

    python benches/bulk.py [--rows N] [--rounds N] [--large N] [--output PATH]

Each measurement is a process of its own against one server (`src/server.rs`), the same rows, the same requests in
flight; rounds take turns, a ratio is taken within a round, and the median over rounds is reported. A figure is the
whole run, from opening the file of rows to the last record: imports are left out, files are not. The last run is one of
many rows, for its memory.

The other side is the method of the script that providers' cookbooks hand out for such files: read a line, wait for
room in a bucket of requests and of tokens, send it with one shared session, retry what failed, append a line. It is
written kindly: it keeps its output open, counts tokens by length, and sleeps only where it must wait.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from runner import build, serving

OUTPUT = Path(__file__).parent / "BULK.md"
IN_FLIGHT = 32
SIDES = ("steadycall", "cookbook")
GOAL = 5.0
MOST_MIB = 200
Sample = dict[str, float]


def write_rows(path: Path, rows: int) -> None:
    """Rows of about a kilobyte, as prompts are."""
    text = "Say in one sentence what this paragraph is about, and name the two terms that matter most in it. " * 9
    with path.open("w") as file:
        for number in range(rows):
            messages = [
                {"role": "system", "content": "You are brief."},
                {"role": "user", "content": f"{number}: {text}"},
            ]
            body = {"model": "some-model", "messages": messages, "max_tokens": 64}
            row = {"custom_id": f"row-{number}", "method": "POST", "url": "/small", "body": body}
            file.write(json.dumps(row) + "\n")


# The two sides


def run_steadycall(rows: Path, output: Path, base: str) -> int:
    import steadycall

    summary = steadycall.bulk(
        rows, output=output, base_url=base, headers={"authorization": "Bearer k"}, concurrency=IN_FLIGHT
    )
    return summary.answered


class Bucket:
    """Requests and tokens that flow in by the second, up to a minute's worth."""

    def __init__(self, requests: float, tokens: float) -> None:
        self.most = (requests, tokens)
        self.left = [requests, tokens]
        self.at = time.monotonic()

    def take(self, tokens: int) -> bool:
        now = time.monotonic()
        flow, self.at = (now - self.at) / 60.0, now
        self.left = [min(most, left + most * flow) for most, left in zip(self.most, self.left, strict=True)]
        if self.left[0] < 1 or self.left[1] < tokens:
            return False
        self.left[0] -= 1
        self.left[1] -= tokens
        return True


async def cookbook(rows: Path, output: Path, base: str) -> int:
    import aiohttp

    bucket = Bucket(1e9, 1e12)
    retries: asyncio.Queue[tuple[dict[str, Any], int]] = asyncio.Queue()
    in_flight: set[asyncio.Task[None]] = set()
    answered = 0

    async def send(session: aiohttp.ClientSession, row: dict[str, Any], tries: int, out: Any) -> None:
        nonlocal answered
        try:
            async with session.post(base + row["url"], json=row["body"]) as response:
                answer = await response.json()
                status = response.status
            if "error" in answer:
                raise RuntimeError(answer["error"])
        except Exception as error:
            if tries > 1:
                retries.put_nowait((row, tries - 1))
                return
            answer, status = {"error": str(error)}, 0
        result = {"custom_id": row["custom_id"], "response": {"status_code": status, "body": answer}}
        out.write(json.dumps(result) + "\n")
        out.flush()
        answered += 1

    with rows.open() as lines, output.open("a") as out:
        headers = {"Authorization": "Bearer k"}
        async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:
            ended = False
            while not ended or in_flight or not retries.empty():
                tries = 5
                if not retries.empty():
                    row, tries = retries.get_nowait()
                elif not ended and (line := lines.readline()):
                    row = json.loads(line)
                else:
                    ended = True
                    await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
                    continue
                tokens = sum(len(message["content"]) for message in row["body"]["messages"]) // 4
                while not bucket.take(tokens):
                    await asyncio.sleep(0.001)
                task = asyncio.create_task(send(session, row, tries, out))
                in_flight.add(task)
                task.add_done_callback(in_flight.discard)
                if len(in_flight) >= IN_FLIGHT:
                    await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
    return answered


def run_cookbook(rows: Path, output: Path, base: str) -> int:
    return asyncio.run(cookbook(rows, output, base))


# Measuring


def work(side: str, rows: Path, output: Path, base: str) -> Sample:
    """One run in this process."""
    run = {"steadycall": run_steadycall, "cookbook": run_cookbook}[side]
    __import__({"steadycall": "steadycall._bulk", "cookbook": "aiohttp"}[side])
    began, before = time.perf_counter(), time.process_time()
    answered = run(rows, output, base)
    return {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - before,
        "answered": answered,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(side: str, rows: Path, count: int, folder: Path, base: str) -> Sample:
    """One run in a process of its own; its records are counted."""
    output = folder / f"{side}-{time.monotonic_ns()}.jsonl"
    command = [sys.executable, __file__, "--work", side, str(rows), str(output), base]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sample: Sample = json.loads(said)
    with output.open() as lines:
        assert sum(1 for _ in lines) == sample["answered"] == count, (side, sample)
    for path in folder.glob(f"{output.stem}*"):
        path.unlink()
    return sample


def report(rounds: dict[str, list[Sample]], large: Sample, rows: int, many: int, setting: list[str]) -> str:
    ratios = [theirs["cpu"] / ours["cpu"] for ours, theirs in zip(*(rounds[side] for side in SIDES), strict=True)]
    middle = statistics.median(ratios)
    peak = large["peak_mib"]
    lines = [
        "# A row of a bulk run",
        "",
        "Written by `bulk.py`, whose head says what is measured and what the other side does.",
        "",
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(ratios)} rounds of {rows:,} rows, {IN_FLIGHT} in flight.",
        *(f"- {line}" for line in setting),
        f"- The other side: aiohttp {machine.package('aiohttp')}.",
        "",
        "Median [lowest-highest round].",
        "",
        "| what | goal | measured | |",
        "|---|---|---|---|",
        f"| rows per CPU second, of the cookbook's | at least {GOAL:g} x | {spread(ratios)} x |"
        f" {'reached' if middle >= GOAL else '**missed**'} ({sum(one >= GOAL for one in ratios)} of {len(ratios)}) |",
        f"| peak memory of {many:,} rows | at most {MOST_MIB} MiB | {peak:.0f} MiB |"
        f" {'reached' if peak <= MOST_MIB else '**missed**'} |",
        "",
        "| side | rows per second | CPU seconds per 1,000 rows | peak memory, MiB |",
        "|---|---|---|---|",
    ]
    for side, samples in rounds.items():
        per_second = [rows / sample["wall"] for sample in samples]
        each = [sample["cpu"] / rows * 1000 for sample in samples]
        memory = [sample["peak_mib"] for sample in samples]
        lines.append(f"| {side} | {spread(per_second)} | {spread(each)} | {spread(memory)} |")
    lines.append(
        f"| steadycall, {many:,} rows | {many / large['wall']:,.0f} | {large['cpu'] / many * 1000:.3f} | {peak:,.0f} |"
    )
    return "\n".join([*lines, ""])


def spread(found: list[float]) -> str:
    shown = [f"{one:,.0f}" if one >= 100 else f"{one:.1f}" if one >= 1 else f"{one:.3f}" for one in three(found)]
    return f"{shown[0]} [{shown[1]}-{shown[2]}]"


def three(found: list[float]) -> tuple[float, float, float]:
    return statistics.median(found), min(found), max(found)


def main() -> None:
    options = argparse.ArgumentParser(description="Measure what a row of a bulk run costs.")
    options.add_argument("--rows", type=int, default=10_000, help="rows of a round, 10,000 by default")
    options.add_argument("--rounds", type=int, default=7, help="rounds, 7 by default")
    options.add_argument("--large", type=int, default=100_000, help="rows of the last run, 100,000 by default")
    options.add_argument("--output", type=Path, default=OUTPUT, help="where the table goes")
    options.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        side, rows, output, base = given.work
        print(json.dumps(work(side, Path(rows), Path(output), base)))
        return
    setting = machine.setting()
    with tempfile.TemporaryDirectory() as name, serving(build()) as base:
        folder = Path(name)
        few, many = folder / "few.jsonl", folder / "many.jsonl"
        write_rows(few, given.rows)
        write_rows(many, given.large)
        rounds: dict[str, list[Sample]] = {side: [] for side in SIDES}
        for _ in range(given.rounds):
            for side in SIDES:
                rounds[side].append(measured(side, few, given.rows, folder, base))
        large = measured("steadycall", many, given.large, folder, base)
    table = report(rounds, large, given.rows, given.large, setting)
    given.output.write_text(table)
    print(table)


if __name__ == "__main__":
    main()
