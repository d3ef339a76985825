"""Telling observers: the logger ``steadycall`` and the callables given as ``on_retry`` and ``on_end``.

An observer never changes how a call ends: what it raises is logged, because an answer that was paid for must not be
lost to a mistake in a metrics hook. Control-flow exceptions pass.
"""

from __future__ import annotations

import logging
import time

from ._records import CallRecord, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from ._kinds import StopReason
    from ._native import Run
    from ._records import AttemptRecord
    from ._units_record import UnitRecord

logger = logging.getLogger("steadycall")


def retried(record: AttemptRecord, host: str, reason: str, on_retry: Callable[[AttemptRecord], Any] | None) -> None:
    """Log at INFO that an attempt failed and another follows after ``record.wait``, and tell ``on_retry``."""
    if logger.isEnabledFor(logging.INFO):
        status = "no answer" if record.status is None else f"HTTP {record.status}"
        code = f" {record.provider_code}" if record.provider_code else ""
        asked = f", as {record.hint_source} asks" if record.hint_source else ""
        logger.info(
            "attempt %d at %s: %s%s (%s); trying again in %.3g s%s",
            *(record.number, host, status, code, reason, record.wait, asked),
        )
    _tell(on_retry, record)


def settled(
    run: Run,
    usage: dict[str, int] | None,
    stop: StopReason | None,
    on_end: Callable[[CallRecord], Any] | None,
) -> None:
    """Tell ``on_end`` how the attempts of a run went; ``stop`` is ``None`` when they were answered."""
    if on_end is None:
        return
    record = CallRecord(
        attempts=run.attempts,
        requests=run.requests,
        elapsed=run.elapsed,
        usage=usage,
        outcome="answered" if stop is None else stop.value,
        stop_reason=stop,
    )
    ended(record, on_end)


def event(on_event: Callable[[Event], Any], host: str, model: str | None, **fields: Any) -> None:
    """Tell ``on_event`` of a step."""
    now = time.time()
    wait = fields.get("wait")
    if fields["name"] == "waiting" and wait is not None:
        fields["until"] = _moment(now + wait)
    _tell(on_event, Event(at=now, host=host, model=model or None, **fields))


def circuit(key: str, state: str, on_event: Callable[[Event], Any] | None) -> None:
    """Log that a circuit changed, and tell ``on_event``."""
    host, _, model = key.partition(" ")
    logger.log(logging.WARNING if state == "open" else logging.INFO, "the circuit of %s is %s", key.strip(), state)
    if on_event is not None:
        event(on_event, host, model, name="circuit_changed", state=state)


def _moment(seconds: float) -> datetime | None:
    from datetime import UTC, datetime  # paid for by who wants events

    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError):
        return None


def ended(record: CallRecord, on_end: Callable[[CallRecord], Any] | None) -> None:
    """Tell ``on_end`` how the whole call went."""
    _tell(on_end, record)


def unit_settled(record: UnitRecord, on_unit: Callable[[UnitRecord], Any] | None) -> None:
    """Log at INFO how a unit of work ended, and tell ``on_unit``."""
    if logger.isEnabledFor(logging.INFO):
        name = "" if record.name is None else f" {record.name}"
        cause = "" if record.cause is None else f": {record.cause}"
        logger.info(
            "unit_settled%s: %s after %d requests and %.3g s of calls%s",
            *(name, record.outcome, record.requests, record.call_seconds, cause),
        )
    _tell(on_unit, record)


def _tell(observer: Callable[[Any], Any] | None, record: object) -> None:
    if observer is None:
        return
    try:
        given = observer(record)
        if hasattr(given, "cr_await"):
            given.close()  # or Python would warn of it later, far from here
            logger.error("an observer of steadycall gave a coroutine, which nobody awaits; it takes a plain callable")
    except Exception:
        logger.exception("an observer of steadycall failed; the call goes on")
