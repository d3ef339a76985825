"""Rows of a program's own: taken from an iterable as there is room, and given back as results.

No more rows than a window are taken that have not been given back, in order or not, so an endless iterable is fine.
"""

from __future__ import annotations

from ._bulk_records import BulkResult
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any, Self

    from ._bulk_settings import Settings
    from ._native import Bulk

WINDOW = 4
"""Rows taken ahead, as a multiple of the requests in flight: enough that those who wait for a retry hold up nobody."""

POLL = 0.002
"""Seconds between two looks of an event loop: one timer for a batch of results costs less than a wake-up for each."""

_END = object()


class _Results:
    """What both kinds of iterator share: how many rows are out, and which results may be given."""

    def __init__(self, ordered: bool, settings: Settings) -> None:
        if not isinstance(ordered, bool):
            raise ConfigError("ordered", repr(ordered), "True or False")
        self._native: Bulk = settings.native()
        self._ordered = ordered
        self._window = WINDOW * settings.concurrency
        self._taken = self._given = 0
        self._ready: list[BulkResult] = []  # last first, to be popped
        self._held: dict[int, BulkResult] = {}
        self._exhausted = self._started = False

    @property
    def _has_room(self) -> bool:
        return not self._exhausted and self._taken - self._given < self._window

    def _feed(self, row: Any) -> None:
        if not self._started:
            self._started = True
            self._native.start()
        self._native.feed(self._taken, row)
        self._taken += 1

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
        return self._ready.pop()

    @property
    def _over(self) -> bool:
        return self._exhausted and self._given == self._taken

    def close(self) -> None:
        """Give up what is in flight."""
        self._exhausted, self._taken, self._ready = True, self._given, []
        self._native.abort()


class BulkResults(_Results):
    """An iterator of results; dropping it, or leaving its ``with`` block, gives up what is in flight."""

    def __init__(self, rows: Any, ordered: bool, settings: Settings) -> None:
        super().__init__(ordered, settings)
        self._rows = iter(_rows(rows))

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> BulkResult:
        """The next result, waited for."""
        while not self._ready:
            if self._over:
                self.close()
                raise StopIteration
            if not self._has_room:
                self._arrived(self._native.take(None))
                continue
            row = next(self._rows, _END)
            if row is _END:
                self._exhausted = True
                continue
            self._feed(row)
            self._arrived(self._native.take(0))
        return self._next()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what is in flight."""
        self.close()


class AsyncBulkResults(_Results):
    """The same for ``async for``; rows may come from an async iterable."""

    def __init__(self, rows: Any, ordered: bool, settings: Settings) -> None:
        super().__init__(ordered, settings)
        self._rows: AsyncIterator[Any] = rows.__aiter__() if hasattr(rows, "__aiter__") else _awaited(_rows(rows))

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> BulkResult:
        """The next result, awaited."""
        import asyncio

        while not self._ready:
            if self._over:
                self.close()
                raise StopAsyncIteration
            if self._has_room:
                row = await anext(self._rows, _END)
                if row is _END:
                    self._exhausted = True
                    continue
                self._feed(row)
            self._arrived(self._native.take(0))
            if not self._ready and not self._has_room and not self._over:
                await asyncio.sleep(POLL)
        return self._next()

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
