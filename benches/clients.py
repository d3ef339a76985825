"""The clients under test, each behind the same two questions: send one request sync, send one request async.

Every client gets the payload as a Python object and gives back the answer as Python objects, by its own means where it
has them and by the standard library's `json` where it has none. Each keeps its connections where it can, raises for a
bad status, and waits at most about 30 s, as `steadycall.call` does by default. Beyond that the defaults stand, but for
pool limits that would keep a client from having as many requests in flight as the work asks for.
A library is imported when it is asked for, never before: one process measures one client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

Send = Callable[[], object]
AsyncSend = Callable[[], Awaitable[object]]

TIMEOUT = 30.0


@contextmanager
def steadycall_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    import steadycall

    call = steadycall.call
    yield lambda: call(url, payload)


@asynccontextmanager
async def steadycall_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    import steadycall

    acall = steadycall.acall
    yield lambda: acall(url, payload)


@contextmanager
def urllib_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    """The hand-written loop that `steadycall.call` replaces. urllib opens a connection for each request."""
    import random
    import time
    import urllib.error
    import urllib.request

    tries, base, cap = 5, 1.0, 30.0

    def send() -> object:
        body = json.dumps(payload).encode()
        for n in range(tries):
            request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 500, 503, 504) or n == tries - 1:
                    raise
                time.sleep(random.random() * min(cap, base * 2**n))
        raise AssertionError("the loop returns or raises")

    yield send


@contextmanager
def httpx_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    import httpx

    with httpx.Client(timeout=TIMEOUT) as client:
        yield lambda: client.post(url, json=payload).raise_for_status().json()


@asynccontextmanager
async def httpx_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    """Default limits (100 connections, 20 kept): without limits its pool is three times slower at 64 in flight."""
    import httpx

    async with httpx.AsyncClient(timeout=TIMEOUT) as client:

        async def send() -> object:
            return (await client.post(url, json=payload)).raise_for_status().json()

        yield send


@asynccontextmanager
async def aiohttp_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)  # the default of 100 would queue the rest
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, raise_for_status=True) as session:

        async def send() -> object:
            async with session.post(url, json=payload) as response:
                return await response.json()

        yield send


@contextmanager
def pyreqwest_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    from datetime import timedelta

    from pyreqwest.client import SyncClientBuilder

    with SyncClientBuilder().timeout(timedelta(seconds=TIMEOUT)).error_for_status(True).build() as client:
        yield lambda: client.post(url).body_json(payload).build().send().json()


@asynccontextmanager
async def pyreqwest_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    from datetime import timedelta

    from pyreqwest.client import ClientBuilder

    async with ClientBuilder().timeout(timedelta(seconds=TIMEOUT)).error_for_status(True).build() as client:

        async def send() -> object:
            response = await client.post(url).body_json(payload).build().send()
            return await response.json()

        yield send


@contextmanager
def httpr_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    import httpr

    with httpr.Client(timeout=TIMEOUT) as client:
        yield lambda: client.post(url, json=payload).raise_for_status().json()


@asynccontextmanager
async def httpr_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    """Its sync client on a thread pool: by default 64 at a time, the rest queue. A thread for each would cost more."""
    import httpr

    async with httpr.AsyncClient(timeout=TIMEOUT) as client:

        async def send() -> object:
            return (await client.post(url, json=payload)).raise_for_status().json()

        yield send


@contextmanager
def pyqwest_sync(url: str, payload: Any, in_flight: int) -> Iterator[Send]:
    import pyqwest

    # Its docs name a default of 2 kept connections.
    with pyqwest.SyncHTTPTransport(timeout=TIMEOUT, pool_max_idle_per_host=max(in_flight, 2)) as transport:
        client = pyqwest.SyncClient(transport)

        def send() -> object:
            response = client.post(url, content=payload)
            if response.status != 200:
                raise OSError(f"status {response.status}")
            return response.json()

        yield send


@asynccontextmanager
async def pyqwest_async(url: str, payload: Any, in_flight: int) -> AsyncIterator[AsyncSend]:
    import pyqwest

    async with pyqwest.HTTPTransport(timeout=TIMEOUT, pool_max_idle_per_host=max(in_flight, 2)) as transport:
        client = pyqwest.Client(transport)

        async def send() -> object:
            response = await client.post(url, content=payload)
            if response.status != 200:
                raise OSError(f"status {response.status}")
            return response.json()

        yield send


SYNC = {
    "steadycall": steadycall_sync,
    "urllib": urllib_sync,
    "httpx": httpx_sync,
    "pyreqwest": pyreqwest_sync,
    "httpr": httpr_sync,
    "pyqwest": pyqwest_sync,
}
ASYNC = {
    "steadycall": steadycall_async,
    "httpx": httpx_async,
    "aiohttp": aiohttp_async,
    "pyreqwest": pyreqwest_async,
    "httpr": httpr_async,
    "pyqwest": pyqwest_async,
}
# What `import` costs is asked of the module a user would import.
IMPORTS = {
    "steadycall": "steadycall",
    "urllib": "urllib.request",
    "httpx": "httpx",
    "aiohttp": "aiohttp",
    "pyreqwest": "pyreqwest.client",
    "httpr": "httpr",
    "pyqwest": "pyqwest",
}
