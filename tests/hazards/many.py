"""Makes 10,000 calls of every kind and prints what they left behind. Arguments: mode and URL.

A tenth of the calls warms up first; what is printed is how much more there is after the others than after those,
and of sockets how many there are.
The server is in another process, so that all that is counted here is the client's.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import os
import sys
import threading
from typing import Any

import steadycall

MODE, URL = sys.argv[1:]
CALLS = 10_000
WARM_UP = CALLS // 10

# Of twenty calls: most are answered, and each other end is met too.
PATHS = ["/ok"] * 14 + ["/busy-first", "/reset-first", "/refused", "/cut", "/never", "/never"]


def options_of(path: str) -> dict[str, Any]:
    seconds = {"timeout": 0.001, "tries": 1} if path == "/never" else {}
    return {"sleep": lambda _: None, "on_retry": lambda _: None, "headers": lambda: {"x-n": "1"}} | seconds


def ends_in(path: str, error: BaseException | None) -> None:
    expected = {
        "/refused": steadycall.HTTPStatusError,
        "/cut": steadycall.ResponseError,
        "/never": (steadycall.AttemptTimeout, asyncio.CancelledError),
    }.get(path, type(None))
    assert isinstance(error, expected), (path, error)  # type: ignore[arg-type]


def call_them(count: int) -> None:
    for number in range(count):
        path = PATHS[number % len(PATHS)]
        error = None
        try:
            steadycall.call(URL + path, {"n": number}, **options_of(path))
        except steadycall.CallError as raised:
            error = raised
        ends_in(path, error)


async def acall_them(count: int) -> None:
    async def one(number: int) -> None:
        path = PATHS[number % len(PATHS)]
        cancelled = path == "/never" and number % 2 == 1
        options = options_of(path) | ({"timeout": 30} if cancelled else {})
        task = asyncio.ensure_future(steadycall.acall(URL + path, {"n": number}, **options))
        if cancelled:
            asyncio.get_running_loop().call_later(0.005, task.cancel)
        await asyncio.wait([task])
        ends_in(path, asyncio.CancelledError() if task.cancelled() else task.exception())

    for first in range(0, count, 50):
        await asyncio.gather(*(one(number) for number in range(first, first + 50)))
    assert len(asyncio.all_tasks()) == 1


def held() -> dict[str, int]:
    for _ in range(3):
        gc.collect()
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    names = os.listdir("/proc/self/fd")
    sockets = sum(is_socket(name) for name in names)
    return {
        "sockets": sockets,
        "other_descriptors": len(names) - sockets,
        "threads": len(os.listdir("/proc/self/task")),
        "python_threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
        "mib": pages * os.sysconf("SC_PAGESIZE") // 2**20,
    }


def is_socket(name: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    except OSError:
        return False  # the listing's own, closed by now


def types() -> collections.Counter[str]:
    return collections.Counter(type(each).__qualname__ for each in gc.get_objects())


def main() -> dict[str, Any]:
    with asyncio.Runner() as runner:
        make = {
            "call": call_them,
            "acall": lambda count: runner.run(acall_them(count)),
            "loops": lambda count: [asyncio.run(acall_them(100)) for _ in range(count // 100)],
        }[MODE]
        make(WARM_UP)
        types_before, before = types(), held()
        make(CALLS - WARM_UP)
        after, types_after = held(), types()
    more = {name: after[name] - before[name] for name in before}
    # How many connections are kept swings with how many calls happened to overlap, so the number itself is told.
    return more | {"sockets": after["sockets"], "types": (types_after - types_before).most_common(5)}


if __name__ == "__main__":
    print(json.dumps(main()))
