"""``bulk`` and ``abulk``: many rows through one provider, none lost and none paid for twice without being told.

A run from file to file is a ``BulkRun``; rows of the program's own come and go through ``_bulk_stream``. All work is
done by a thread of the native module that never takes the GIL; what is left here is names, defaults and waiting.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from ._bulk_files import Lock, paths
from ._bulk_records import BulkPlan, BulkProgress, BulkSummary
from ._bulk_settings import Settings
from ._bulk_stream import AsyncBulkResults, BulkResults
from ._errors import ConfigError
from ._native import Bulk, bulk_survey, callback, seconds_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
    from typing import Any, Self, Unpack, overload

    from ._bulk_records import BulkResult
    from ._bulk_settings import Keywords
    from ._time import Seconds

    Path = str | bytes | os.PathLike[str]
    OnProgress = Callable[[BulkProgress], Any]

else:

    def overload(fn):
        return fn


class BulkRun:
    """One run from a file of rows to a file of answers. Does nothing until ``start``; may be shared by threads.

    Run it again with the same files after whatever ended it - a stop, a kill, a full disk - and it goes on: every row
    ends in exactly one record across ``output`` and ``failures``, and what was answered and written is not sent again.
    Calls of a model are at-least-once: a row that had been sent without an answer written is sent again, and counted
    as ``maybe_billed_twice``.

    Args:
        rows: a file with one row a line: with ``base_url`` in the OpenAI Batch format (``custom_id``, ``method``,
            ``url``, ``body``), with ``url`` plain payloads.
        output: the file of answers, in the Batch result format; appended to. A journal lies beside it.
        failures: the file of failed rows and bad lines, with line numbers and reasons; beside ``output`` unless given.
        retry_failed: whether the rows that failed in earlier runs are sent again.
        settings: as for ``bulk``.

    Raises:
        ConfigError: a value that makes no sense.
    """

    def __init__(
        self,
        rows: Path,
        *,
        output: Path,
        failures: Path | None = None,
        retry_failed: bool = False,
        **settings: Unpack[Keywords],
    ) -> None:
        self._files = paths(rows, output, failures)
        if not isinstance(retry_failed, bool):
            raise ConfigError("retry_failed", repr(retry_failed), "True or False")
        self._retry_failed = retry_failed
        self._settings = Settings(**settings)
        self._native: Bulk = self._settings.native()
        self._lock: Lock | None = None

    def plan(self) -> BulkPlan:
        """Read all rows and say what the run would cost, without sending or writing anything.

        Raises:
            OSError: a file cannot be read.
            ConfigError: the output belongs to other rows.
        """
        return self._settings.plan(*bulk_survey(*self._files, self._settings.url is not None, self._retry_failed))

    def start(self) -> Self:
        """Open the files, see what earlier runs left to do, and begin to send; returns at once after that.

        Raises:
            OSError: a file cannot be read or written; nothing was sent.
            ConfigError: the output belongs to other rows, or another run writes to it now; nothing was sent.
            RuntimeError: it was started before.
        """
        if self._lock is not None:
            raise RuntimeError("the run was started before")
        lock = Lock(self._files)
        try:
            self._native.open(*self._files, self._retry_failed)
            self._native.start()
        except BaseException:
            lock.give_back()
            raise
        self._lock = lock
        return self

    def wait(self, timeout: Seconds | None = None) -> BulkSummary | None:
        """Wait until the run is over: its summary, or ``None`` when ``timeout`` seconds passed first.

        Signal handlers run while it waits. What a handler raises (Ctrl-C) passes and leaves the run alone: ``stop`` or
        ``abort`` it.

        Raises:
            RuntimeError: it was not started.
            OSError: a file could not be written any more, for example on a full disk. What had been written is whole,
                and the same command goes on from there.
            Error: the run ended for a fault of ours.
        """
        if self._lock is None:
            raise RuntimeError("the run was not started")
        if not self._native.wait(seconds_or_none("timeout", timeout)):
            return None
        return self._over()

    def progress(self) -> BulkProgress:
        """How far it is."""
        fields = self._native.progress()
        until = _in(fields.pop("wait"))
        return BulkProgress(**fields, waits_until=until)

    def stop(self) -> None:
        """Send nothing new and finish what is in flight; rows that wait stay for the next run. Returns at once."""
        self._native.stop()

    def abort(self) -> None:
        """End now: what is in flight is given up, and may have been billed. Returns at once."""
        self._native.abort()

    def _over(self) -> BulkSummary:
        try:
            fields = self._native.outcome()
            until = _in(fields.pop("wait"))
            files = self._files
            return BulkSummary(**fields, waits_until=until, output=files.output, failures=files.failures)
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        """Start the run, unless it was started."""
        return self if self._lock is not None else self.start()

    def __exit__(self, *_: object) -> None:
        """Abort the run if it is not over, and wait until it is."""
        self._native.abort()
        self._native.wait(None)
        if self._lock is not None:
            self._lock.release()


@overload
def bulk(
    rows: Path,
    *,
    output: Path,
    failures: Path | None = None,
    retry_failed: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Unpack[Keywords],
) -> BulkSummary: ...
@overload
def bulk(  # noqa: F811 - an overload
    rows: Path | Iterable[Any], *, ordered: bool = False, **settings: Unpack[Keywords]
) -> Iterator[BulkResult]: ...
def bulk(  # noqa: F811 - what is overloaded
    rows: Any,
    *,
    output: Path | None = None,
    failures: Path | None = None,
    retry_failed: bool = False,
    ordered: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Unpack[Keywords],
) -> BulkSummary | Iterator[BulkResult]:
    """Send many rows: from file to file, or from an iterable to an iterator of results.

    Args:
        rows: with ``output`` the path of a file, see ``BulkRun``; without it a path or any iterable of rows: payloads
            with ``url``, dicts in the OpenAI Batch format with ``base_url``. It is read ahead by a bounded number.
        output: the file of answers; see ``BulkRun``.
        failures: the file of failures.
        retry_failed: whether rows that failed in earlier runs are sent again.
        ordered: whether results come in the order of the rows; else they come as they are there.
        on_progress: told how far a run from file to file is, twice a second and at its end, in the calling thread.
        url: where every row goes; each row is then a payload.
        base_url: where the relative ``url`` of each row in the Batch format goes.
        headers: HTTP headers of every request.
        policy: how a row is retried; more patiently than a single call unless given. Its deadline counts from the
            moment the row may first be sent.
        concurrency: most requests in flight.
        rate: a ``RateLimit``, its burst a tenth of a minute's unless given; without it, the limits that the first
            answers tell of are kept.
        timeout: seconds for each I/O phase, or a ``Timeout``.
        max_response_bytes: the largest answer.
        proxy: the URL of a proxy; ``None`` asks the environment.
        ca_bundle: a PEM file of trusted certificates.
        give_up_after: seconds of nothing but failures of the server or the network after which the run stops, and rows
            not sent are left; ``None`` is never.

    Returns:
        A ``BulkSummary`` with ``output``, else an iterator of ``BulkResult``. A row that fails is a result, not an
        exception.

    Raises:
        ConfigError: a value that makes no sense, or the output belongs to other rows.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: at Ctrl-C, once the run has ended; the same call goes on from there.
    """
    if output is None:
        _only_with_output(failures, retry_failed, on_progress)
        return BulkResults(rows, ordered, Settings(**settings))
    _not_ordered(ordered)
    tell = callback("on_progress", on_progress)
    run = BulkRun(rows, output=output, failures=failures, retry_failed=retry_failed, **settings)
    with run:
        while (summary := run.wait(0.5)) is None:
            if tell is not None:
                tell(run.progress())
        if tell is not None:
            tell(run.progress())
        return summary


@overload
def abulk(
    rows: Path,
    *,
    output: Path,
    failures: Path | None = None,
    retry_failed: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Unpack[Keywords],
) -> Coroutine[Any, Any, BulkSummary]: ...
@overload
def abulk(  # noqa: F811 - an overload
    rows: Path | Iterable[Any] | AsyncIterable[Any], *, ordered: bool = False, **settings: Unpack[Keywords]
) -> AsyncIterator[BulkResult]: ...
def abulk(  # noqa: F811 - what is overloaded
    rows: Any,
    *,
    output: Path | None = None,
    failures: Path | None = None,
    retry_failed: bool = False,
    ordered: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Unpack[Keywords],
) -> Coroutine[Any, Any, BulkSummary] | AsyncIterator[BulkResult]:
    """As ``bulk``: to be awaited with ``output``, else to be iterated over with ``async for``; rows may be async too.

    Cancelling the task aborts the run.
    """
    if output is None:
        _only_with_output(failures, retry_failed, on_progress)
        return AsyncBulkResults(rows, ordered, Settings(**settings))
    _not_ordered(ordered)
    tell = callback("on_progress", on_progress)
    run = BulkRun(rows, output=output, failures=failures, retry_failed=retry_failed, **settings)
    return _awaited(run, tell)


async def _awaited(run: BulkRun, tell: OnProgress | None) -> BulkSummary:
    import asyncio

    with run:
        turns = 0
        while not run._native.wait(0):
            await asyncio.sleep(0.02)
            turns += 1
            if tell is not None and turns % 25 == 0:
                tell(run.progress())
        summary = run._over()
        if tell is not None:
            tell(run.progress())
        return summary


def _in(wait: float | None) -> datetime | None:
    return None if wait is None else datetime.now(UTC) + timedelta(seconds=wait)


def _only_with_output(failures: object, retry_failed: object, on_progress: object) -> None:
    given = {"failures": failures, "retry_failed": retry_failed or None, "on_progress": on_progress}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(name, repr(value), "left out where there is no output file")


def _not_ordered(ordered: object) -> None:
    if ordered:
        raise ConfigError("ordered", repr(ordered), "left out with an output file, whose lines tell their custom_id")
