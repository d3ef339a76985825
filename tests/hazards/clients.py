"""A client in the hands of forks, signals, loops and exits. Arguments: a scenario, and URLs of a silent and an echoing server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import steadycall
from steadycall import AsyncClient, Client, ConcurrencyLimit, RateLimit

SILENT, ECHO = sys.argv[2:]
SECONDS_TO_LIVE = 30  # a child that hangs is ended by SIGALRM, and counts as wrong


def say(**what: Any) -> None:
    print(json.dumps({"at": time.monotonic()} | what), flush=True)


def fill(client: Client) -> None:
    """Have every slot of the client held, and somebody in line."""
    for _ in range(2):
        threading.Thread(target=lambda: client.call("", {}), daemon=True).start()
    while client.waiting < 1:
        time.sleep(0.001)


def forked() -> None:
    """Children of a process whose gates are full and under work find them open, and leave the parent's alone."""
    client = Client(SILENT, concurrency=ConcurrencyLimit(1), timeout=None)
    asynchronous = AsyncClient(ECHO, concurrency=ConcurrencyLimit(1))
    fill(client)
    asyncio.run(asynchronous.call("", {"id": 0}))
    living = []
    for number in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS_TO_LIVE)
            right = False
            try:
                there = client.with_options(base_url=ECHO)
                right = there.call("", {"id": number}).json == {"id": number}
                right &= asyncio.run(asynchronous.call("", {"id": -number})).json == {"id": -number}
                right &= (client.in_flight, client.waiting) == (0, 0)
            finally:
                os._exit(0 if right else 1)
        living.append(child)
    right = sum(os.waitpid(child, 0)[1] == 0 for child in living)
    say(right=right, parent=[client.in_flight, client.waiting])
    os._exit(0)


def interrupted_in_line() -> None:
    client = Client(SILENT, concurrency=ConcurrencyLimit(1), timeout=None)
    fill(client)
    say(ready=True)
    try:
        client.call("", {})
    except KeyboardInterrupt:
        felt = time.monotonic()
        while client.waiting > 1:  # the background thread lets go of it in a moment
            time.sleep(0.001)
        say(felt="KeyboardInterrupt", at=felt, waiting=client.waiting)
    os._exit(0)


def interrupted_before_the_rate() -> None:
    client = Client(ECHO, rate=RateLimit(requests_per_minute=1, burst=1))
    client.call("", {})
    say(ready=True)
    try:
        client.call("", {})
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt", waiting=client.waiting)


def many_loops() -> None:
    """One client, loop after loop and many at once; nobody is ever beside the limit."""
    client = AsyncClient(ECHO, concurrency=ConcurrencyLimit(3))
    right: list[bool] = []
    most = 0

    async def ask(number: int) -> None:
        nonlocal most
        reply = await client.call("", {"id": number})
        most = max(most, client.in_flight or 0)
        right.append(reply.json == {"id": number})

    async def many(start: int) -> None:
        await asyncio.gather(*(ask(start + number) for number in range(50)))

    asyncio.run(many(0))
    asyncio.run(many(50))
    threads = [threading.Thread(target=lambda at=at: asyncio.run(many(at))) for at in range(100, 300, 50)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(right=sum(right), most=most, left=[client.in_flight, client.waiting])


def exits_with_waiters() -> None:
    """The interpreter ends with calls in flight and in line, in threads and in a loop."""
    client = Client(SILENT, concurrency=ConcurrencyLimit(1), timeout=None)
    fill(client)

    async def leave() -> None:
        asynchronous = AsyncClient(SILENT, concurrency=ConcurrencyLimit(1), timeout=None)
        tasks = [asyncio.create_task(asynchronous.call("", {})) for _ in range(5)]
        while asynchronous.waiting < 4:
            await asyncio.sleep(0.001)
        say(ready=len(tasks))
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    try:
        asyncio.run(leave())
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt")


def cancelled() -> None:
    """Thousands of waiters come and are cancelled; nothing of them is left."""

    async def main() -> None:
        client = AsyncClient(SILENT, concurrency=ConcurrencyLimit(1, queue=20_000), timeout=None)
        for _ in range(5):
            tasks = [asyncio.create_task(client.call("", {})) for _ in range(2_000)]
            while client.waiting < 1_999:
                await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in ended)
            while (client.in_flight, client.waiting) != (0, 0):
                await asyncio.sleep(0.001)
        say(left=[client.in_flight, client.waiting])

    asyncio.run(main())


globals()[sys.argv[1]]()
assert steadycall
