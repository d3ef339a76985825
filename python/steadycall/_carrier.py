"""Who carries one request of a transport: the pool of this package, or an httpx transport that the user gave.

What both bring is the same: an answer with its head, read in pieces, and ``Lost`` where there is none. Each has a sync
and an async front; their methods are coroutine functions all, and those of the sync one never wait, so that the
transports above are written once (``finish`` runs such a coroutine to its end).
"""

from __future__ import annotations

import sys

from ._exceptions import judge as judge_exception
from ._gevent import cooperative
from ._native import Exchange, Fault, failure
from ._time import Timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    from ._family import Pairs
    from ._operation import BoundPolicy
    from ._records import Failure

    T = TypeVar("T")

WHOLE = sys.maxsize
"""For ``read``: all that is left."""

# Said of the connection or of the body's length, which are the carrier's own business.
_OURS = {b"connection", b"content-length", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}


class Lost(Exception):
    """What came instead of an answer, or of its rest."""

    def __init__(
        self,
        judged: Failure,
        *,
        reason: str = "connection_lost",
        phase: str | None = None,
        detail: str = "",
        fully_sent: bool = False,
        replays: int = 0,
        partial: bytes = b"",
        error: BaseException | None = None,
    ) -> None:
        super().__init__(detail)
        self.judged = judged
        self.reason = reason
        self.phase = phase
        self.detail = detail
        self.fully_sent = fully_sent
        self.replays = replays
        self.partial = partial
        self.error = error
        """The user's transport raised it, and it is raised on as itself."""


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # what the coroutine returned
    work.close()
    raise RuntimeError("a sync front waited for an event loop; this is a bug in steadycall, please report it")


# Our pool


class Pool:
    """This package's own connections, for a front that blocks."""

    def __init__(self, proxy: str | None, ca_bundle: Any) -> None:
        self._route = (proxy, ca_bundle)

    async def body(self, request: Any) -> bytes:
        """The whole body of a request."""
        return request.read()  # type: ignore[no-any-return]  # httpx says bytes

    async def open(self, request: Any, body: bytes, limit: float | None) -> Answer:
        """Send it, and wait for the head of the answer.

        Raises:
            Lost: there is none.
        """
        url = request.url if not request.url.userinfo else request.url.copy_with(userinfo=b"")
        host = url.netloc
        headers = [
            (name, value)
            for name, value in request.headers.raw
            if (lower := name.lower()) not in _OURS and not (lower == b"host" and value == host)
        ]
        exchange = Exchange(request.method, str(url), headers, body, timeout_of(request), *self._route)
        try:
            status, pairs, version, replays = await self._open(exchange, limit)
        except Fault as fault:
            raise lost(fault) from None
        except BaseException:
            exchange.close()
            raise
        return Answer(status, pairs, version.encode(), replays, exchange, self._read)

    async def _open(self, exchange: Exchange, limit: float | None) -> Any:
        return cooperative(exchange.open, exchange.close)(limit)

    async def _read(self, exchange: Exchange, least: int, silence: float | None = None) -> bytes:
        return cooperative(exchange.read, exchange.close)(least, silence)

    async def pause(self, bound: BoundPolicy, run: Any, wait: float) -> None:
        """Wait before the next attempt."""
        bound.pause(run, wait)

    async def close(self) -> None:
        """Nothing: the pool is shared by the whole process."""


class AsyncPool(Pool):
    """The same for asyncio."""

    async def body(self, request: Any) -> bytes:
        return await request.aread()  # type: ignore[no-any-return]  # as above

    async def _open(self, exchange: Exchange, limit: float | None) -> Any:
        return await exchange.aopen(limit)

    async def _read(self, exchange: Exchange, least: int, silence: float | None = None) -> bytes:
        return b"" if exchange.is_over else await exchange.aread(least, silence)

    async def pause(self, bound: BoundPolicy, run: Any, wait: float) -> None:
        await bound.apause(run, wait)


class Answer:
    """An answer whose head is there."""

    def __init__(
        self, status: int, headers: Pairs, version: bytes, replays: int, exchange: Exchange, read: Any
    ) -> None:
        self.status = status
        self.headers = headers
        self.version = version
        self.replays = replays
        self._exchange = exchange
        self._read = read

    async def read(self, least: int = 1) -> bytes:
        """At least so many bytes, or all that is left; empty at the end.

        Raises:
            Lost: it broke.
        """
        try:
            return await self._read(self._exchange, least)  # type: ignore[no-any-return]  # as the pool gives it
        except Fault as fault:
            raise lost(fault) from None
        except BaseException:
            self._exchange.close()
            raise

    async def read_within(self, seconds: float) -> bytes:
        """The next bytes, where they come so soon; empty at the end, and when they do not."""
        try:
            return b"" if self._exchange.is_over else await self._read(self._exchange, 1, seconds)
        except Fault:
            return b""

    async def close(self) -> None:
        """Give it up; its connection is closed unless it was read to its end."""
        self._exchange.close()


def lost(fault: Fault) -> Lost:
    """What our own pool tells of a request without an answer."""
    reason, sent, phase, detail, fully_sent, replays, partial = fault.args
    return Lost(
        failure(reason, sent),
        reason=reason,
        phase=phase,
        detail=detail,
        fully_sent=fully_sent,
        replays=replays,
        partial=partial,
    )


def timeout_of(request: Any) -> Timeout:
    """The I/O timeouts a request carries; httpx gives each phase in seconds or as ``None``."""
    given = request.extensions.get("timeout") or {}
    phases = {name: given.get(name) for name in ("connect", "read", "write", "pool")}
    # 0 is "at once" in httpx, which is not a time to wait at all.
    return Timeout(None, **{name: None if value is None else max(value, 0.001) for name, value in phases.items()})


# The user's transport


class Inner:
    """An httpx transport that the user gave, for a front that blocks."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def body(self, request: Any) -> bytes:
        """The whole body of a request, which can then be sent any number of times."""
        return request.read()  # type: ignore[no-any-return]  # httpx says bytes

    async def open(self, request: Any, body: bytes, limit: float | None) -> InnerAnswer:
        """Send it, and wait for the head of the answer; a limit cuts each phase, for nothing else can be cut.

        Raises:
            Lost: there is none.
        """
        outside = sys.exception()
        try:
            return InnerAnswer(self._transport.handle_request(within(request, limit)))
        except Exception as error:
            raise lost_inner(error, outside) from None

    async def pause(self, bound: BoundPolicy, run: Any, wait: float) -> None:
        """Wait before the next attempt."""
        bound.pause(run, wait)

    async def close(self) -> None:
        """Close the transport."""
        self._transport.close()


class AsyncInner(Inner):
    """The same for ``async``."""

    async def body(self, request: Any) -> bytes:
        return await request.aread()  # type: ignore[no-any-return]  # as above

    async def open(self, request: Any, body: bytes, limit: float | None) -> InnerAnswer:
        timer, outside = None, sys.exception()
        try:
            async with sys.modules["asyncio"].timeout(limit) as timer:
                response = await self._transport.handle_async_request(request)
        except Exception as error:
            if timer is not None and timer.expired() and isinstance(error, TimeoutError):
                judged = failure("attempt_timeout", "maybe")
                detail = "the attempt took too long"
                raise Lost(judged, reason="attempt_timeout", phase="attempt", detail=detail) from None
            raise lost_inner(error, outside) from None
        return AsyncInnerAnswer(response)

    async def pause(self, bound: BoundPolicy, run: Any, wait: float) -> None:
        await bound.apause(run, wait)

    async def close(self) -> None:
        await self._transport.aclose()


class InnerAnswer:
    """An answer of the user's transport, decoded."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        decoded = {b"content-encoding", b"content-length"}
        self.headers: Pairs = [pair for pair in response.headers.raw if pair[0].lower() not in decoded]
        self.version: bytes = response.extensions.get("http_version", b"HTTP/1.1")
        self.replays = 0
        self._response = response
        self._pieces = self._iterate()

    def _iterate(self) -> Any:
        return self._response.iter_bytes()

    async def _next(self) -> bytes | None:
        return next(self._pieces, None)

    async def read(self, least: int = 1) -> bytes:
        """At least so many bytes, or all that is left; empty at the end.

        Raises:
            Lost: it broke.
        """
        pieces: list[bytes] = []
        size, outside = 0, sys.exception()
        try:
            while size < least and (piece := await self._next()) is not None:
                pieces.append(piece)
                size += len(piece)
        except Exception as error:
            raise lost_inner(error, outside, b"".join(pieces)) from None
        return b"".join(pieces)

    async def read_within(self, seconds: float) -> bytes:
        """Nothing: only the request's own timeouts would end the wait."""
        return b""

    async def close(self) -> None:
        """Give it up."""
        self._response.close()


class AsyncInnerAnswer(InnerAnswer):
    """The same for ``async``."""

    def _iterate(self) -> Any:
        return self._response.aiter_bytes()

    async def _next(self) -> bytes | None:
        return await anext(self._pieces, None)

    async def close(self) -> None:
        await self._response.aclose()


def lost_inner(error: Exception, outside: BaseException | None, partial: bytes = b"") -> Lost:
    """What the user's transport raised instead of an answer; ``outside`` was being handled before, and is no part of it."""
    judged = judge_exception(error, outside).failure
    silent = judged.reason == _SILENCE
    return Lost(judged, detail=str(error), fully_sent=silent, partial=partial, error=error)


_SILENCE = failure("read_timeout", "maybe").reason


def within(request: Any, limit: float | None) -> Any:
    """The request with each of its timeouts cut to the limit."""
    if limit is not None:
        given = request.extensions.get("timeout") or {}
        phases = ("connect", "read", "write", "pool")
        cut = {name: limit if given.get(name) is None else min(given[name], limit) for name in phases}
        request.extensions = {**request.extensions, "timeout": cut}
    return request
