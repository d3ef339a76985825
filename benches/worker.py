"""One measurement in one fresh process: `worker.py CLIENT MODE URL COUNT WARMUP`, one JSON object on standard output.

MODE is `sync1`, `syncN` (N threads) or `asyncN` (N tasks on one loop); the counterpart in Rust is src/floor.rs, which
prints the same fields. CPU is user and system time of the whole process, all threads included, from the end of the
warm-up to the last answer.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import clients

PAYLOAD = Path(__file__).with_name("data") / "request.json"
FLOATS = 13 * 768


def main(client: str, mode: str, url: str, count: int, warmup: int) -> None:
    payload = json.loads(PAYLOAD.read_bytes())
    in_flight = int(mode.removeprefix("async").removeprefix("sync"))
    if mode.startswith("async"):
        report = asyncio.run(measure_async(client, url, payload, in_flight, count, warmup))
    else:
        report = measure_sync(client, url, payload, in_flight, count, warmup)
    print(json.dumps(report), flush=True)


def measure_sync(client: str, url: str, payload: Any, threads: int, count: int, warmup: int) -> dict[str, float | None]:
    with clients.SYNC[client](url, payload, threads) as send:
        check(send())
        run_sync(send, threads, warmup)
        finish = start()
        run_sync(send, threads, count)
        return finish(count)


def run_sync(send: clients.Send, threads: int, count: int) -> None:
    def lane(share: int) -> None:
        try:
            for _ in range(share):
                send()
        except Exception as error:
            failures.append(error)

    failures: list[Exception] = []
    if threads == 1:
        lane(count)
    else:
        lanes = [threading.Thread(target=lane, args=(share,)) for share in shares(count, threads)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
    if failures:
        raise failures[0]


async def measure_async(
    client: str, url: str, payload: Any, in_flight: int, count: int, warmup: int
) -> dict[str, float | None]:
    async with clients.ASYNC[client](url, payload, in_flight) as send:
        check(await send())
        await run_async(send, in_flight, warmup)
        finish = start()
        await run_async(send, in_flight, count)
        return finish(count)


async def run_async(send: clients.AsyncSend, in_flight: int, count: int) -> None:
    async def lane(share: int) -> None:
        for _ in range(share):
            await send()

    await asyncio.gather(*[lane(share) for share in shares(count, in_flight)])


def shares(count: int, lanes: int) -> list[int]:
    """`count` requests dealt to at most `lanes` lanes."""
    lanes = min(lanes, count)
    return [count // lanes + (lane < count % lanes) for lane in range(lanes)]


def check(answer: Any) -> None:
    """The answer arrived and was parsed, floats exactly: a client that does less work must not look fast."""
    if "candidates" in answer:
        assert answer["candidates"][0]["avgLogprobs"] == -0.18273645519256592
        assert answer["usageMetadata"]["totalTokenCount"] == 248
    else:
        values = [value for vector in answer["embeddings"] for value in vector["values"]]
        assert len(values) == FLOATS
        assert all(type(value) is float for value in values)


def start() -> Callable[[int], dict[str, float | None]]:
    with suppress(OSError):
        # Lets VmHWM start again from what is resident now (Linux; elsewhere the figure is missing).
        Path("/proc/self/clear_refs").write_text("5")
    rss, cpu, wall = status_kib("VmRSS:"), cpu_seconds(), time.perf_counter()

    def finish(requests: int) -> dict[str, float | None]:
        return {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": cpu_seconds() - cpu,
            "requests": requests,
            "rss_kib": rss,
            "peak_kib": status_kib("VmHWM:"),
        }

    return finish


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def status_kib(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
