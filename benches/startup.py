"""What only a fresh process can tell: `startup.py import MODULE | first CLIENT URL | modules BASE`.

The first prints wall and CPU milliseconds of the import; the second the same of building a client and making its first
call, the import left out; the third the modules that calls import for the first time, by kind of call, one kind
a line. The imports below are the ones the goal leaves out of account, and modules that are built in: nothing here may
import more than that before it has looked.
"""

import enum  # noqa: F401 - part of the base the goal names
import logging  # noqa: F401 - part of the base the goal names
import sys
import time
import urllib.error

ASYNCIO = ("asyncio", "_asyncio")


def import_time(module: str) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    __import__(module)
    print((time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3)


def first_call(client: str, url: str) -> None:
    import clients

    __import__(clients.IMPORTS[client])
    payload = {"contents": [{"role": "user", "parts": [{"text": "Good morning."}]}]}
    start, cpu = time.perf_counter(), time.process_time()
    with clients.SYNC[client](url, payload, 1) as send:
        send()
        print((time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3)


def modules(base: str) -> None:
    import steadycall

    waits: list[float] = []

    def good() -> None:
        steadycall.call(f"{base}/small", {})

    def busy() -> None:
        try:
            steadycall.call(f"{base}/busy", {}, tries=3, sleep=waits.append)
        except urllib.error.HTTPError as error:
            error.read()

    def show(kind: str, before: set[str]) -> None:
        new = sorted(set(sys.modules) - before)
        lines.append(f"{kind}:{','.join(name for name in new if name.partition('.')[0] not in ASYNCIO)}")

    lines: list[str] = []
    for kind, run in (("call", good), ("call, 503", busy)):
        before = set(sys.modules)
        run()
        show(kind, before)

    import asyncio

    async def nothing() -> None:
        pass

    async def agood() -> None:
        await steadycall.acall(f"{base}/small", {})

    async def abusy() -> None:
        try:
            await steadycall.acall(f"{base}/busy", {}, tries=3, sleep=waits.append)
        except urllib.error.HTTPError as error:
            error.read()

    asyncio.run(nothing())  # what any loop imports is not ours
    for kind, arun in (("acall", agood), ("acall, 503", abusy)):
        before = set(sys.modules)
        asyncio.run(arun())
        show(kind, before)
    print("\n".join(lines))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["import", module]:
            import_time(module)
        case ["first", client, url]:
            first_call(client, url)
        case ["modules", base]:
            modules(base)
        case _:
            sys.exit(__doc__)
