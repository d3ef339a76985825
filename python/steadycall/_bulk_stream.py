"""Rows of a program's own: taken from an iterable as there is room, and given back as results.

No more rows than a window are taken that have not been given back, in order or not, so an endless iterable is fine.
"""

from __future__ import annotations

import contextvars
import threading
import time
from contextlib import suppress

from ._bulk_records import BulkResult
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator
    from typing import Any, Self

    from ._bulk_settings import Settings
    from ._native import Bulk

WINDOW = 4
"""Rows taken ahead, as a multiple of the requests in flight: enough that those who wait for a retry hold up nobody."""

POLL = 0.002
"""Seconds between two looks of an event loop: one timer for a batch of results costs less than a wake-up for each."""

PROBE = 0.05
"""Seconds between two looks whether the rows have come to their end while no result comes."""

_END = object()


class _Source:
    """Takes rows and hands them to the run, apart from who waits for results: a row may only come after a result.

    Knows nothing of the iterator of results, so that dropping that one ends this.
    """

    def __init__(self, native: Bulk, rows: Any) -> None:
        self.native, self.rows = native, rows
        self.taken = 0
        self.closed = self.ended = False
        self.error: BaseException | None = None

    def feed(self, row: Any) -> None:
        self.native.feed(self.taken, row)
        self.taken += 1

    def pull(self, room: threading.Semaphore) -> None:
        try:
            while room.acquire() and not self.closed and (row := next(self.rows, _END)) is not _END:
                self.feed(row)
        except BaseException as error:  # raised to who takes results, after those of earlier rows
            self.error = error
        self.ended = True

    async def apull(self, room: asyncio.Semaphore) -> None:
        try:
            while await room.acquire() and not self.closed and (row := await anext(self.rows, _END)) is not _END:
                self.feed(row)
        except BaseException as error:
            self.error = error
        self.ended = True


class _Results:
    """What both kinds of iterator share: how many rows are out, and which results may be given."""

    _source: _Source | None = None  # for `__del__`, where a setting was refused
    _room: threading.Semaphore | asyncio.Semaphore | None = None

    def __init__(self, rows: Any, ordered: bool, settings: Settings) -> None:
        if not isinstance(ordered, bool):
            raise ConfigError("ordered", repr(ordered), "True or False")
        self._native: Bulk = settings.native()
        self._source = _Source(self._native, rows)
        self._ordered = ordered
        self._window = WINDOW * settings.concurrency
        self._given = 0
        self._ready: list[BulkResult] = []  # last first, to be popped
        self._held: dict[int, BulkResult] = {}

    def _arrived(self, results: list[dict[str, Any]]) -> None:
        found = [BulkResult(**fields) for fields in results]
        if self._ordered:
            self._held.update((result.index, result) for result in found)
            found = []
            while (result := self._held.pop(self._given + len(found), None)) is not None:
                found.append(result)
        self._ready = found[::-1]

    def _next(self) -> BulkResult:
        self._given += 1
        if self._room is not None:
            self._room.release()
        return self._ready.pop()

    def _is_over(self, source: _Source) -> bool:
        """Whether every row that was taken was given back; raises what the rows raised, once."""
        if not (source.closed or (source.ended and self._given == source.taken)):
            return False
        self.close()
        error, source.error = source.error, None
        if error is not None:
            raise error
        return True

    def close(self) -> None:
        """Give up what is in flight."""
        self._ready = []
        if self._source is not None:
            self._source.closed = True
        if self._room is not None:
            self._room.release()
        self._native.abort()

    def __del__(self) -> None:
        """Give up what is in flight."""
        if self._source is not None and not self._source.closed:
            with suppress(RuntimeError):  # in a child of fork, or when the loop is closed
                self.close()


class BulkResults(_Results):
    """An iterator of results; dropping it, or leaving its ``with`` block, gives up what is in flight."""

    def __init__(self, rows: Any, ordered: bool, settings: Settings) -> None:
        super().__init__(iter(_rows(rows)), ordered, settings)

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> BulkResult:
        """The next result, waited for."""
        source = self._source
        assert source is not None
        if self._room is None and not source.closed:
            self._room = threading.Semaphore(self._window)
            self._native.start()
            pull = contextvars.copy_context().run
            threading.Thread(target=pull, args=(source.pull, self._room), name="steadycall-rows", daemon=True).start()
        while not self._ready:
            if self._is_over(source):
                raise StopIteration
            self._arrived(self._native.take(PROBE))
            if not self._ready:
                time.sleep(0)  # under gevent the thread that takes rows is one of those that must have a turn
        return self._next()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what is in flight."""
        self.close()


class AsyncBulkResults(_Results):
    """The same for ``async for``; rows may come from an async iterable."""

    _task: asyncio.Task[None] | None = None

    def __init__(self, rows: Any, ordered: bool, settings: Settings) -> None:
        rows = rows.__aiter__() if hasattr(rows, "__aiter__") else _awaited(_rows(rows))
        super().__init__(rows, ordered, settings)

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> BulkResult:
        """The next result, awaited."""
        import asyncio

        source = self._source
        assert source is not None
        if self._room is None and not source.closed:
            self._room = asyncio.Semaphore(self._window)
            self._native.start()
            self._task = asyncio.ensure_future(source.apull(self._room))
        while not self._ready:
            if self._is_over(source):
                raise StopAsyncIteration
            self._arrived(self._native.take(0))
            if not self._ready:
                await asyncio.sleep(POLL)
        return self._next()

    def close(self) -> None:
        """Give up what is in flight."""
        super().close()
        if self._task is not None:
            self._task.cancel()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give up what is in flight."""
        self.close()


def _rows(rows: Any) -> Any:
    """The rows of an iterable, or the lines of a file."""
    if isinstance(rows, (str, bytes)) or hasattr(rows, "__fspath__"):
        return _lines(rows)
    if isinstance(rows, dict) or not hasattr(rows, "__iter__"):
        raise ConfigError("rows", type(rows).__name__, "a path or an iterable of rows")
    return rows


def _lines(path: Any) -> Iterator[bytes]:
    with open(path, "rb") as file:
        for line in file:
            if line.strip():
                yield line


async def _awaited(rows: Any) -> AsyncIterator[Any]:
    for row in rows:
        yield row
