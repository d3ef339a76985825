"""``Stream`` and ``AsyncStream``: the events of an answer as they come, or all of them collected."""

from __future__ import annotations

from operator import length_hint

from ._carrier import finish
from ._errors import Closed
from ._native import seconds_or_none
from ._record import frozen
from ._stream_attempt import Awaiting, Blocking, Limits
from ._streaming import Streaming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType
    from typing import Any, Self

    from ._native import StreamEvent
    from ._operation import BoundPolicy
    from ._records import AttemptRecord
    from ._time import Seconds


@frozen
class StreamTimeout:
    """How long a stream may let its reader wait, in seconds; ``None`` is not limited.

    Args:
        first_event: from the request to the first content; comments, pings and what opens an answer are none.
        idle: the longest silence once the answer has begun to come; every byte ends it, comments and pings too.
        total: from the request to the end of the answer, of each attempt.

    Raises:
        ConfigError: one of them is neither a finite time above 0 nor ``None``.
    """

    first_event: Seconds | None = 120.0
    """From the request to the first content."""
    idle: Seconds | None = 60.0
    """The longest silence once the answer has begun to come."""
    total: Seconds | None = None
    """From the request to the end of the answer."""

    def __init__(
        self,
        *,
        first_event: Seconds | None = 120.0,
        idle: Seconds | None = 60.0,
        total: Seconds | None = None,
    ) -> None:
        for name, given in (("first_event", first_event), ("idle", idle), ("total", total)):
            seconds_or_none(name, given)
            self.__dict__[name] = given

    def _limits(self) -> Limits:
        return Limits(*(seconds_or_none(name, self.__dict__[name]) for name in ("first_event", "idle", "total")))


@frozen
class Collected:
    """A whole answer, put together from its events."""

    text: str
    """The visible text; of a stream whose protocol nobody here knows, the data of its events."""
    usage: dict[str, int] | None
    """The tokens the answer cost, if the provider told them."""
    total_usage: dict[str, int] | None
    """Those of all attempts, because they were billed."""
    event_count: int
    """How many events it came in."""
    status: int
    """The HTTP status."""
    attempts: tuple[AttemptRecord, ...]
    """Every attempt in order."""
    elapsed: float
    """Seconds from the first request to the end of the answer."""
    request_id: str | None
    """The server's id for the request."""
    run_id: str | None
    """The provider's id for the answer."""


class _Stream:
    """What both fronts have."""

    _front: Blocking

    def __init__(
        self,
        make: Callable[[], Any],
        bound: BoundPolicy,
        *,
        url: str,
        host: str,
        timeout: StreamTimeout,
        **options: Any,
    ) -> None:
        # The options are those of `Streaming`.
        limits = timeout._limits()
        self._work = Streaming(self._front, make, bound, limits, url=url, host=host, **options)
        self._events: Iterator[StreamEvent] = iter(())
        self._untaken = 0
        """Events that had come when it was closed, and were not given out."""

    def _close(self) -> None:
        self._untaken += length_hint(self._events)
        self._events = iter(())
        self._work.close()

    @property
    def text(self) -> str:
        """The visible text of the events that were given out so far; see ``StreamEvent.text``."""
        attempt = self._work.attempt
        if attempt is None or attempt.reader is None:
            return ""
        return attempt.reader.text_before(self._untaken + length_hint(self._events))

    @property
    def usage(self) -> dict[str, int] | None:
        """The tokens the answer costs, as far as the provider told them; most tell them at the end."""
        return self._work.usage

    @property
    def total_usage(self) -> dict[str, int] | None:
        """Those of all attempts, because they were billed."""
        return self._work.total_usage

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The attempts that are over, in order."""
        return () if self._work.run is None else self._work.run.attempts

    @property
    def status(self) -> int | None:
        """The HTTP status of the answer; ``None`` before there is one."""
        return None if self._work.attempt is None else self._work.attempt.status

    @property
    def request_id(self) -> str | None:
        """The server's id for the request."""
        return self._work.request_id

    @property
    def run_id(self) -> str | None:
        """The provider's id for the answer."""
        return self._work.run_id

    def __repr__(self) -> str:
        state = "over" if self._work.over else "not begun" if self._work.attempt is None else "open"
        return f"<{type(self).__name__} {self._work.host}: {state}>"

    async def _collect(self) -> Collected:
        work = self._work
        if not work.finished:
            work.require_open()
        self._events = iter(())  # given out as a part of it
        while await work.advance() is not None:
            pass
        run, attempt = work.run, work.attempt
        if not work.finished or run is None or attempt is None or attempt.reader is None or attempt.status is None:
            raise Closed("this stream was closed")
        return Collected(
            text=attempt.reader.text,
            usage=work.usage,
            total_usage=work.total_usage,
            event_count=attempt.reader.given,
            status=attempt.status,
            attempts=run.attempts,
            elapsed=run.elapsed,
            request_id=work.request_id,
            run_id=work.run_id,
        )


class Stream(_Stream):
    """The events of one answer, for ``with`` and ``for``; made by ``Client.stream``.

    Entering it sends the request and waits for the first content; iterating without ``with`` does so too. It is read
    by one thread at a time, and nothing is read ahead of it. Leaving the block closes the socket, unless the answer
    was read to its end.
    """

    _front = Blocking()

    def __enter__(self) -> Self:
        """Send the request, and wait for the first content.

        Raises:
            CallError: as ``Client.call``; none of the attempts brought content.
            Closed: it was closed before.
        """
        self._work.require_open()
        self._events = iter(finish(self._work.advance()) or ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        """The next event.

        Raises:
            StreamInterrupted: the answer broke after its first content.
            CallError: none of the attempts brought content.
            Closed: it was closed by another thread while this one waited.
        """
        for event in self._events:
            self._work.shown = True
            return event
        events = finish(self._work.advance())
        if events is None:
            raise StopIteration
        self._events = iter(events)
        self._work.shown = True
        return next(self._events)

    def collect(self) -> Collected:
        """Read all of it, and put it together.

        Until then nothing is shown, so that an answer which breaks after its first content is tried again too, as the
        policy allows; it counts as billed. Events that were taken before are part of it, and then nothing is retried.

        Raises:
            StreamInterrupted: the answer broke, and no attempt was left.
            CallError: as ``Client.call``.
            Closed: it was closed before its end.
        """
        try:
            return finish(self._collect())
        finally:
            self.close()

    def close(self) -> None:
        """Close the socket, unless the answer was read to its end; nothing is sent after it, and a second one does nothing.

        Another thread that reads it, or waits for its turn to send, ends with ``Closed``; a sleep ends first.
        """
        self._close()


class AsyncStream(_Stream):
    """The events of one answer, for ``async with`` and ``async for``; made by ``AsyncClient.stream``.

    The twin of ``Stream``. Cancelling the task that reads it closes the socket.
    """

    _front = Awaiting()

    async def __aenter__(self) -> Self:
        """Send the request, and wait for the first content; see ``Stream``."""
        self._work.require_open()
        self._events = iter(await self._work.advance() or ())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        """The next event; see ``Stream``."""
        for event in self._events:
            self._work.shown = True
            return event
        events = await self._work.advance()
        if events is None:
            raise StopAsyncIteration
        self._events = iter(events)
        self._work.shown = True
        return next(self._events)

    async def collect(self) -> Collected:
        """Read all of it, and put it together; see ``Stream``."""
        try:
            return await self._collect()
        finally:
            self._close()

    async def aclose(self) -> None:
        """Close the socket, unless the answer was read to its end; see ``Stream.close``."""
        self._close()
