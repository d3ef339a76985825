"""``Transport`` and ``AsyncTransport``: the policy below an httpx client, and so below every SDK built on one.

They have no base class, because httpx and httpx2 ask for none: one class serves both, and neither is imported.
"""

from __future__ import annotations

import time
import warnings

from ._body import Body
from ._carrier import AsyncInner, AsyncPool, Inner, Pool, finish
from ._client_base import Base
from ._delivery import Delivery
from ._errors import ConfigError
from ._front import Awaiting, Blocking
from ._retry import bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from os import PathLike
    from typing import Any, Self

    from ._admission import Admission
    from ._hooks import Rng, Sleep
    from ._operation import BoundPolicy
    from ._policy import Policy
    from ._records import AttemptRecord, CallRecord
    from ._time import Clock


class RetryStackingWarning(UserWarning):
    """The client above a transport sends again by itself, so that every retry of one multiplies those of the other."""


_warned = False


class _Base:
    _pool: type[Pool] = Pool
    _inner: type[Inner] = Inner
    _method = "handle_request"
    _front: type[Blocking] = Blocking

    def __init__(
        self,
        policy: Policy | BoundPolicy | Base | None = None,
        *,
        inner: Any = None,
        hold_preamble: bool = True,
        proxy: str | None = None,
        ca_bundle: str | PathLike[str] | None = None,
        sleep: Sleep | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        on_retry: Callable[[AttemptRecord], Any] | None = None,
        on_end: Callable[[CallRecord], Any] | None = None,
    ) -> None:
        given = {"sleep": sleep, "clock": clock, "rng": rng, "on_retry": on_retry, "on_end": on_end}
        hooks = {name: value for name, value in given.items() if value is not None}
        self._admission: Admission | None = None
        if isinstance(policy, Base):
            if clock is not None:
                raise ConfigError("clock", repr(clock), "left out: it belongs to the gates of the client")
            self._admission = policy._admission(self._front, sleep)
            self._bound = bind(policy._bound(), hooks)
        else:
            self._bound = bind(policy, hooks)
        if self._bound._validate is not None:
            raise ConfigError("validate", "a callable", "left out: a transport hands answers on and reads none")
        if not isinstance(hold_preamble, bool):
            raise ConfigError("hold_preamble", repr(hold_preamble), "True or False")
        self._hold = hold_preamble
        if inner is not None and not hasattr(inner, self._method):
            raise ConfigError("inner", repr(inner), f"a transport of httpx with {self._method}, or None")
        for name, value in (("proxy", proxy), ("ca_bundle", ca_bundle)):
            if inner is not None and value is not None:
                raise ConfigError(name, "a value together with inner", "a setting of the inner transport")
        self._carrier: Any = self._pool(proxy, ca_bundle) if inner is None else self._inner(inner)
        self._final = _Final()

    async def _handle(self, request: Any) -> tuple[Any, Body | None, Delivery]:
        notice_stacking(request)
        body = await self._carrier.body(request)
        delivery = Delivery(self._bound, self._carrier, request, hold=self._hold, admission=self._admission)
        mark = (request.method, str(request.url), hash(body))
        self._final.check(request, mark, delivery)
        try:
            response, answer = await delivery.run(body)
        except Exception as error:
            if delivery.final is error:
                self._final.note(mark, error)
            raise
        return response, None if answer is None else Body(answer, delivery), delivery


class Transport(_Base):
    """A transport for ``httpx.Client`` and ``httpx2.Client`` that retries by a policy.

    Give it to a client as ``transport=``, and that client to an SDK as ``http_client=``; ``wrap`` does both. The
    client's timeouts are obeyed. What is tried again is decided as in ``call``, errors inside a 200 and at the start
    of a stream included. When the policy gives up, the last answer is returned, so that the SDK raises its own error,
    with ``x-should-retry: false``, so that it does not start again; where no answer came, the error raised is both
    httpx's and ours. An error that came inside a 200 is returned under its own status, the original in
    ``x-steadycall-status``.

    Args:
        policy: a ``Policy``, or what its ``bind`` gave; ``None`` is the default policy. A ``Client`` or ``AsyncClient``
            puts the requests behind its gates too: its limits, its breaker, its budgets; its observers are told of
            them. Its ``fallback``, ``headers``, timeouts and ``proxy`` are for its own calls alone.
        inner: a transport of httpx that carries the requests; ``None`` is the connections of this package.
        hold_preamble: whether the opening of a stream is held back, up to 64 KiB, until its first content, so that a
            failure before it can be tried again.
        proxy: URL of an http or https proxy; ``None`` uses the environment's.
        ca_bundle: a PEM file trusted instead of the system's roots.
        sleep: called once per retry with the wait in seconds; ``None`` is ``time.sleep``.
        clock: an object with ``now()`` or a callable, in seconds; ``None`` is the monotonic clock.
        rng: a seed or a ``random.Random`` for the waits.
        on_retry: told each failed attempt that is followed by another, as an ``AttemptRecord``.
        on_end: told each request once, as a ``CallRecord``: of a body that is given out as it comes, when that is over.

    Raises:
        ConfigError: a value that makes no sense.
    """

    def handle_request(self, request: Any) -> Any:
        """Send a request of httpx or httpx2 and return its response; called by the client."""
        response, rest, delivery = finish(self._handle(request))
        if rest is None:
            return response
        answer = rest.found.answer
        stream = delivery.family.SyncStream(_Pieces(rest))
        return delivery.family.response(answer.status, answer.headers, stream, answer.version)

    def close(self) -> None:
        """Close the inner transport; the package's own connections are shared, and stay."""
        finish(self._carrier.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTransport(_Base):
    """As ``Transport``, for ``AsyncClient`` of httpx and httpx2, on asyncio: cancelling a request closes its socket.

    Takes the same arguments; ``sleep`` may be a coroutine function, and ``inner`` is an async transport.
    """

    _front = Awaiting
    _pool = AsyncPool
    _inner = AsyncInner
    _method = "handle_async_request"

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request of httpx or httpx2 and return its response; called by the client."""
        response, rest, delivery = await self._handle(request)
        if rest is None:
            return response
        answer = rest.found.answer
        stream = delivery.family.AsyncStream(_AsyncPieces(rest))
        return delivery.family.response(answer.status, answer.headers, stream, answer.version)

    async def aclose(self) -> None:
        """Close the inner transport; the package's own connections are shared, and stay."""
        await self._carrier.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Pieces:
    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield from self._body.held()
        while piece := finish(self._body.more()):
            yield piece

    def close(self) -> None:
        finish(self._body.close())


class _AsyncPieces:
    def __init__(self, body: Body) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._body.held():
            yield piece
        while piece := await self._body.more():
            yield piece

    async def aclose(self) -> None:
        await self._body.close()


def notice_stacking(request: Any) -> None:
    """Warn, once a process, of a client above that sends again by itself."""
    global _warned
    if _warned or retries_above(request) == 0:
        return
    _warned = True
    warnings.warn(
        "this request was sent again by the SDK above steadycall's transport, so that its retries multiply the "
        "policy's: make the client with max_retries=0, or with steadycall.wrap(client, policy)",
        RetryStackingWarning,
        stacklevel=2,
    )


def retries_above(request: Any) -> int:
    """How often the SDK above has sent this request again, as it says."""
    told = request.headers.get("x-stainless-retry-count", "")
    return int(told) if told.isascii() and told.isdigit() else 0


class _Final:
    """Requests that were given up lately, so that a client which sends one again is told so at once."""

    KEPT = 256
    SECONDS = 60.0

    def __init__(self) -> None:
        self._given_up: dict[Any, tuple[float, Any]] = {}

    def note(self, mark: Any, error: Any) -> None:
        """The request was given up with this error, one of ours."""
        now = time.monotonic()
        self._given_up[mark] = (now, error.recipe())
        while len(self._given_up) > self.KEPT:
            self._given_up.pop(next(iter(self._given_up)), None)

    def check(self, request: Any, mark: Any, delivery: Delivery) -> None:
        """Raise the same again for a request that is sent again; one that is new is forgotten.

        Raises:
            Exception: the error it was given up with.
        """
        since, recipe = self._given_up.pop(mark, (0.0, None))
        if recipe is None or time.monotonic() - since > self.SECONDS or retries_above(request) == 0:
            return
        self._given_up[mark] = (since, recipe)
        ours, theirs, fields = recipe
        raise delivery.family.error(ours, theirs, request, **fields)
