"""A client in use for half an hour against a server that misbehaves: what grows, what is lost, what is counted twice.

    python benches/soak.py [--minutes N] [--output PATH]

The server is the testing kit's, in a process of its own, and answers by seeded dice: good, limited, overloaded, reset,
silent, cut short, as a whole or as a stream. Tasks and threads call one `AsyncClient` and one `Client` with every gate
on as fast as they can; some calls are cancelled, some streams left. At the end it says, and exits 1 when one is false:

- every call ended in exactly one outcome;
- memory, open files, threads and tasks did not grow after the warm-up (a fifth of the time);
- requests surely sent <= what the server counted <= those and the ones that may have been sent.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import steadycall
from steadycall import (
    AsyncClient,
    CircuitBreaker,
    Client,
    ConcurrencyLimit,
    Policy,
    RateLimit,
    RetryBudget,
    StreamTimeout,
    TokenBudget,
)
from steadycall.testing import Answer, FakeServer, Request, answers

OUTPUT = Path(__file__).parent / "SOAK.md"
PAYLOAD = {"model": "a-model", "messages": [{"role": "user", "content": "Hello?"}]}
TASKS, THREADS = 48, 4
SILENCE = 0.25
SSE = {"content-type": "text/event-stream"}
DELTA = 'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n'
# May grow by this much: the allocator's and the collector's ebb and flow.
SLACK = {"rss_kib": 6_000, "files": 24, "threads": 2, "tasks": 2}


def serve(seed: int) -> None:
    """The server's process: prints its URL, then, asked by a line, the number of requests it has read."""
    dice = random.Random(seed)
    lock = threading.Lock()

    def answer(request: Request) -> Answer:
        with lock:
            rolled, pause = dice.random(), dice.random()
        if rolled < 0.03:
            return answers.openai.rate_limited(round(0.02 + 0.1 * pause, 3))
        if rolled < 0.06:
            return answers.openai.server_error()
        if rolled < 0.08:
            return Answer(reset="before")
        if rolled < 0.09:
            return Answer(never=True)
        stream = request.path.endswith("/stream")
        good = Answer(headers=SSE, body=DELTA * 20 + "data: [DONE]\n\n") if stream else answers.openai.ok()
        if rolled < 0.10:
            return good.replace(truncate=200)
        return good.replace(delay=0.02 * pause) if rolled < 0.3 else good

    with FakeServer(answer) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(len(server.requests), flush=True)


class Count:
    """What became of calls, and of attempts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.calls = 0
        self.under_way = 0
        self.answered = 0
        self.maybe = 0
        self.unsent = 0

    def event(self, event: Any) -> None:
        with self._lock:
            if event.name == "attempt_started":
                self.under_way += 1
            elif event.name == "attempt_ended":
                attempt = event.attempt
                self.under_way -= 1
                self.maybe += attempt.replays
                if attempt.status is not None:
                    self.answered += 1
                elif attempt.sent == "maybe":
                    self.maybe += 1
                else:
                    self.unsent += 1

    def begin(self) -> None:
        with self._lock:
            self.calls += 1

    def end(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1


def settings(count: Count) -> dict[str, Any]:
    return {
        "policy": Policy(tries=4, base=0.01, cap=0.1, max_wait=2, hint_jitter=0.1),
        "concurrency": ConcurrencyLimit(32, queue=200),
        "rate": RateLimit(requests_per_minute=600_000, tokens_per_minute=60_000_000),
        "token_budget": TokenBudget(10**12),
        "breaker": CircuitBreaker(failure_ratio=0.5, minimum_calls=50, window=5, recovery_timeout=0.2),
        "retry_budget": RetryBudget(),
        "timeout": SILENCE,
        "stream_timeout": StreamTimeout(first_event=SILENCE, idle=SILENCE),
        "on_event": count.event,
    }


async def task(client: AsyncClient, count: Count, dice: random.Random, until: float) -> None:
    while time.monotonic() < until:
        count.begin()
        rolled = dice.random()
        work = asyncio.ensure_future(one_stream(client, rolled) if rolled < 0.3 else one_call(client, rolled))
        if rolled > 0.97:
            asyncio.get_running_loop().call_later(0.01 * dice.random(), work.cancel)
        try:
            count.end(await work)
        except asyncio.CancelledError:
            count.end("cancelled")
        except steadycall.Error as error:
            count.end(type(error).__name__)


async def one_call(client: AsyncClient, rolled: float) -> str:
    deadline = 0.02 if 0.5 < rolled < 0.52 else 5
    reply = await client.call("/v1/chat/completions", PAYLOAD, deadline=deadline, validate=lambda _: rolled < 0.99)
    return "answered" if reply.status == 200 else "strange"


async def one_stream(client: AsyncClient, rolled: float) -> str:
    async with client.stream("/v1/stream", PAYLOAD, deadline=5) as events:
        async for _ in events:
            if rolled < 0.05:
                return "left"
    return "streamed"


def thread(client: Client, count: Count, dice: random.Random, until: float) -> None:
    while time.monotonic() < until:
        count.begin()
        rolled = dice.random()
        try:
            if rolled < 0.3:
                with client.stream("/v1/stream", PAYLOAD, deadline=5) as events:
                    for _ in events:
                        if rolled < 0.05:
                            break
                count.end("streamed")
            else:
                client.call("/v1/chat/completions", PAYLOAD, deadline=5)
                count.end("answered")
        except steadycall.Error as error:
            count.end(type(error).__name__)


def state() -> dict[str, int]:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "rss_kib": rss,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
    }


async def soak(url: str, seconds: float, note: Any) -> tuple[Count, list[dict[str, int]]]:
    count = Count()
    begun = time.monotonic()
    until = begun + seconds
    client, blocking = AsyncClient(url, **settings(count)), Client(url, **settings(count))
    threads = [
        threading.Thread(target=thread, args=(blocking, count, random.Random(100 + number), until))
        for number in range(THREADS)
    ]
    for one in threads:
        one.start()
    tasks = [asyncio.create_task(task(client, count, random.Random(number), until)) for number in range(TASKS)]
    states = []
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, seconds / 20))
        states.append(state())
        note(f"{time.monotonic() - begun:6.0f} s  {count.calls} calls  {states[-1]}")
    await asyncio.gather(*tasks)
    for one in threads:
        await asyncio.to_thread(one.join)
    for gates in (client, blocking):
        assert (gates.in_flight, gates.waiting) == (0, 0), gates
    return count, states


def judge(count: Count, states: list[dict[str, int]], seen: int) -> tuple[list[str], bool]:
    """The table's lines, and whether all of it held."""
    warm = states[len(states) // 5 :]
    third = max(1, len(warm) // 3)
    lines, good = [], True

    def row(what: str, figures: str, held: bool) -> None:
        nonlocal good
        good &= held
        lines.append(f"| {what} | {figures} | {'held' if held else '**broken**'} |")

    ended = sum(count.outcomes.values())
    row("every call ends in one outcome", f"{count.calls} calls, {ended} outcomes", count.calls == ended)
    for name, slack in SLACK.items():
        # Medians of the first and the last third: a moment's height is no growth.
        first, last = (sorted(one[name] for one in part)[third // 2] for part in (warm[:third], warm[-third:]))
        row(f"{name} after the warm-up", f"{first} to {last}", last - first <= slack)
    # Those of cancelled calls never come to an end.
    most = count.answered + count.maybe + count.under_way
    row(
        "requests: surely sent <= counted by the server <= surely and maybe",
        f"{count.answered} <= {seen} <= {most}",
        count.answered <= seen <= most,
    )
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--output", type=Path, default=None, help="SOAK.md for a whole run, nowhere for a shorter one")
    parser.add_argument("--serve", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return 0
    command = [sys.executable, __file__, "--serve", "7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        url = server.stdout.readline().strip()
        count, states = asyncio.run(soak(url, options.minutes * 60, lambda line: print(line, file=sys.stderr)))
        server.stdin.write("how many\n")
        server.stdin.flush()
        seen = int(server.stdout.readline())
        server.stdin.close()
    rows, good = judge(count, states, seen)
    text = "\n".join(
        [
            "# Soak",
            "",
            f"{options.minutes:g} minutes, {datetime.now(UTC):%Y-%m-%d}, {TASKS} tasks and {THREADS} threads, every gate on; "
            "`python benches/soak.py` runs it again.",
            "",
            "| what | figures | |",
            "|---|---|---|",
            *rows,
            "",
            f"Outcomes: {json.dumps(dict(count.outcomes.most_common()))}.",
            "",
        ]
    )
    print(text)
    output = options.output or (OUTPUT if options.minutes >= 30 else None)
    if output is not None:
        output.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
