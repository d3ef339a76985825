"""What every test may count on: no proxy between it and the loopback, and the same random examples in every run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from steadycall import AsyncClient, Client, Policy, retry

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]
os.environ["NO_PROXY"] = "127.0.0.1,localhost"

# CI must fail for what a change did, not for the day's dice; at a desk new examples are welcome.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


class Front:
    """One of the two fronts for wrapped functions; a behaviour test runs in both."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, policy: Policy, fn: Callable[..., Any], *args: Any, **hooks: Any) -> Any:
        """Run a plain function under the policy; in async mode, as a coroutine function."""
        bound = policy.bind(**hooks)
        if self.name == "sync":
            return bound.call(fn, *args)
        return asyncio.run(bound.acall(awaited(fn), *args))

    async def within(self, policy: Policy, fn: Callable[..., Any], *args: Any, **hooks: Any) -> Any:
        """As ``call``, inside of a coroutine: asyncio.run adds contexts and cycles of its own."""
        bound = policy.bind(**hooks)
        return bound.call(fn, *args) if self.name == "sync" else await bound.acall(awaited(fn), *args)

    def decorated(self, fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """The same with the decorator."""
        if self.name == "sync":
            return retry(**options)(fn)
        retried = retry(**options)(awaited(fn))
        return lambda *args: asyncio.run(retried(*args))


def awaited(fn: Callable[..., Any]) -> Callable[..., Any]:
    async def run(*args: Any) -> Any:
        return fn(*args)

    return run


@pytest.fixture(params=["sync", "async"])
def front(request: pytest.FixtureRequest) -> Front:
    """The sync and the async front."""
    return Front(request.param)


class Clients:
    """The blocking and the asyncio client behind one face: a behaviour test runs in both."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make(self, base_url: str | None, **settings: Any) -> ClientFace:
        """A client of this front."""
        cls: Any = Client if self.name == "sync" else AsyncClient
        return ClientFace(self, cls(base_url, **settings))


class ClientFace:
    """One client, whose methods may be called from a plain function whatever its front is."""

    def __init__(self, fronts: Clients, client: Any) -> None:
        self.fronts = fronts
        self.client = client

    def call(self, *args: Any, **options: Any) -> Any:
        return self.run("call", *args, **options)

    def run(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method; in async mode in an event loop of its own."""
        called = getattr(self.client, method)
        if self.fronts.name == "sync":
            return called(*args, **options)

        async def run() -> Any:
            return await called(*args, **options)

        return asyncio.run(run())

    def with_options(self, **changes: Any) -> ClientFace:
        return ClientFace(self.fronts, self.client.with_options(**changes))


@pytest.fixture(params=["sync", "async"])
def clients(request: pytest.FixtureRequest) -> Clients:
    """The blocking client and the one for asyncio."""
    return Clients(request.param)
