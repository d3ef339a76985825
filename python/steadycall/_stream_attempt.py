"""One attempt of a stream: a request, the head of its answer, and its events until they end or something breaks.

Written once, as coroutines that only the front can make wait. Nothing is read ahead: the next bytes are asked for when
the events before them were taken, so a slow reader holds the server back.
"""

from __future__ import annotations

import time

from ._carrier import Lost, lost
from ._errors import (
    AttemptTimeout,
    Closed,
    ConnectError,
    HTTPStatusError,
    ProxyError,
    ResponseError,
    TLSError,
)
from ._family import ERRORS, LOST
from ._found import REQUEST_IDS
from ._gevent import cooperative
from ._native import Events, Fault, failure, judge
from ._scope import tighter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._native import Exchange, Run, StreamEvent
    from ._operation import BoundPolicy
    from ._records import Failure

ERROR_BODY = 1024 * 1024
"""So much of an error's body is read, to know it by; a longer one costs its connection."""

LINGER = 0.05
"""Seconds that the end of a complete answer is waited for, so that its connection can be used again."""

UNCONNECTED = (ConnectError, TLSError, ProxyError)


class Bad:
    """A failed attempt, with what there is to show of it in the end."""

    def __init__(
        self,
        judged: Failure,
        *,
        body: bytes = b"",
        lost: Lost | None = None,
        said: str | None = None,
    ) -> None:
        self.judged = judged
        self.body = body
        self.lost = lost
        self.said = said or judged.reason
        """What happened, in one sentence."""


class Blocking:
    """What a front that blocks does with an exchange."""

    async def open(self, exchange: Exchange, limit: float | None, head: float | None) -> Any:
        """Send the request, and wait for the head of its answer."""
        return cooperative(exchange.open, exchange.close)(limit, head)

    async def read(self, exchange: Exchange, least: int, silence: float) -> bytes:
        """The next bytes, at least so many; empty at the end."""
        return cooperative(exchange.read, exchange.close)(least, silence)

    async def pause(self, bound: BoundPolicy, run: Run, wait: float) -> None:
        """Wait before the next attempt."""
        bound.pause(run, wait)


class Awaiting(Blocking):
    """The same for asyncio."""

    async def open(self, exchange: Exchange, limit: float | None, head: float | None) -> Any:
        return await exchange.aopen(limit, head)

    async def read(self, exchange: Exchange, least: int, silence: float) -> bytes:
        return b"" if exchange.is_over else await exchange.aread(least, silence)

    async def pause(self, bound: BoundPolicy, run: Run, wait: float) -> None:
        await bound.apause(run, wait)


class Limits:
    """How long an attempt may take: those of ``StreamTimeout``, and what the policy leaves; and how much may come."""

    def __init__(self, first_event: float | None, idle: float | None, total: float | None) -> None:
        self.first_event = first_event
        self.idle = idle
        self.total = total
        self.most_bytes: int | None = None
        self.cut_by_deadline = self.cut_by_total = False
        """Whether the attempt under way would end where the deadline, or ``total``, does and no other limit before."""

    def begin(self, run: Run) -> float | None:
        """The longest the attempt may run that ``run`` has begun."""
        limit, left = run.timeout, run.deadline_left
        # Read one after the other on a clock that goes on, so that what is left is the smaller.
        self.cut_by_deadline = left is not None and limit is not None and left <= limit
        self.cut_by_total = self.total is not None and (limit is None or self.total < limit)
        self.since = time.monotonic()
        return tighter(limit, self.total)

    def silence(self, waits_for_content: bool) -> tuple[float, str]:
        """How long the next bytes may take, and the limit that says so."""
        limit, name = float("inf") if self.idle is None else self.idle, "idle"
        if waits_for_content and self.first_event is not None:
            left = max(0.0, self.since + self.first_event - time.monotonic())
            if left < limit:
                limit, name = left, "first_event"
        return limit, name

    def said(self, found: Lost, name: str) -> str | None:
        """What happened, where one of ``StreamTimeout``'s limits cut it; then it is told to be that."""
        if found.reason == "attempt_timeout" and self.cut_by_total:
            # Not the attempt's own limit, which the engine would take for the deadline's.
            found.judged, found.reason, found.phase = failure("read_timeout", "maybe"), "read_timeout", "read"
            said = f"The stream took longer than {self.total:g} s (StreamTimeout.total)."
        elif found.reason != "read_timeout":
            return None
        elif name == "idle":
            said = f"No byte came for {self.idle:g} s (StreamTimeout.idle); the model may still be working."
        elif name == "first_event":
            said = f"No content came within {self.first_event:g} s (StreamTimeout.first_event)."
        else:
            return None
        found.detail, found.fully_sent = said, True
        return said


class Attempt:
    """One exchange, read event by event."""

    def __init__(self, front: Blocking, exchange: Exchange, limits: Limits, where: tuple[str, str]) -> None:
        self.front = front
        self.exchange = exchange
        self.limits = limits
        self.where = where
        """URL and host, for messages."""
        self.reader: Events | None = None
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.replays = 0
        self.received = 0
        self._opening: list[bytes] = []
        self._ending: Bad | None = None
        """What ended it, to be told when the events before it were taken."""

    async def open(self, run: Run, url: str, statuses: set[int] | None, choices: int) -> Bad | None:
        """Send the request; what came instead of a stream, if anything did."""
        limits, limit = self.limits, self.limits.begin(run)
        try:
            head = await self.front.open(self.exchange, limit, limits.first_event)
        except Fault as fault:
            found = lost(fault)
            self.replays = found.replays
            waited = limits.first_event is not None and time.monotonic() - limits.since >= limits.first_event
            said = limits.said(found, "first_event" if waited else "")
            return Bad(found.judged, lost=found, said=said)
        self.status, self.headers, _, self.replays = head
        if 200 <= self.status < 300:
            self.reader = Events(self.status, self.headers, url, time.time(), statuses, choices)
            return None
        # Read to its end, so that its connection can be used again.
        try:
            body = await self.front.read(self.exchange, ERROR_BODY, limits.silence(False)[0])
        except Fault as fault:
            body = lost(fault).partial  # an error body that was cut short is still that error
        self.received = len(body)
        judged = judge(self.status, self.headers, body, url, time.time(), statuses)
        return Bad(failure("not_json", "maybe") if judged is None else judged[0], body=body[:ERROR_BODY])

    @property
    def has_started(self) -> bool:
        """Whether content was given out."""
        return self.reader is not None and self.reader.has_started

    @property
    def is_answered(self) -> bool:
        """Whether it ended in good order."""
        return self.reader is not None and self.reader.is_over and self.reader.failure is None

    async def next(self) -> list[StreamEvent] | Bad | None:
        """The next events, at least one, or what ended it; ``None`` at an end in good order."""
        reader = self.reader
        assert reader is not None
        while not reader.is_over:
            silence, name = self.limits.silence(not reader.has_started)
            try:
                piece = await self.front.read(self.exchange, 1, silence)
            except Fault as fault:
                found = lost(fault)
                if not reader.is_complete:
                    return Bad(found.judged, lost=found, said=self.limits.said(found, name))
                piece = b""  # what broke was not the answer
            self.received += len(piece)
            if self.limits.most_bytes is not None and self.received > self.limits.most_bytes:
                return Bad(failure("too_large_answer", "maybe"))
            events = reader.feed(piece) if piece else reader.end()
            if reader.has_started:
                self._opening.clear()
            else:
                self._opening.append(piece)
            if (judged := reader.failure) is not None:
                self._ending = Bad(judged, body=b"".join(self._opening))
            if events:
                return events
        return self._ending

    async def drain(self) -> None:
        """After the last event: let the body end, so that its connection can be used again."""
        end = time.monotonic() + LINGER
        try:
            while not self.exchange.is_over and (left := end - time.monotonic()) > 0:
                if not await self.front.read(self.exchange, 1, left):
                    break
        except (Fault, Closed):
            pass  # nobody asks for what is missing there

    def happened(self, bad: Bad) -> str:
        """What it brought instead of an answer, as ``call`` says it."""
        host, reason, lost = self.where[1], bad.judged.reason, bad.lost
        if lost is None:
            code = "" if bad.judged.provider_code is None else f" ({bad.judged.provider_code})"
            status = self.status or 0
            return f"{f'HTTP {status} {phrase(status)}'.rstrip()} from {host}{code}: {reason}"
        ours, _ = ERRORS.get(lost.reason, LOST)
        if issubclass(ours, UNCONNECTED) or lost.phase == "connect":
            lacking = "connection to"
        else:
            lacking = "answer from" if self.status is None else "whole answer from"
        if bad.said != reason:
            return f"no {lacking} {host}: {bad.said}"
        # The sentence of the reason would say the same again.
        return f"no {lacking} {host} ({lost.detail}){'.' if lost.reason == 'connect_failed' else f': {reason}'}"

    def error(self, bad: Bad, url: str, **fields: Any) -> Exception:
        """The exception for what ended it."""
        status = self.status
        if bad.lost is not None:
            ours, _ = ERRORS.get(bad.lost.reason, LOST)
            if issubclass(ours, AttemptTimeout):
                fields["phase"] = bad.lost.phase or bad.lost.reason.removesuffix("_timeout")
            return ours(detail=bad.lost.detail, **fields)
        if status is None or 200 <= status < 300:
            return ResponseError(status=status, body=bad.body, **fields)
        pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers)
        return HTTPStatusError(url=url, code=status, msg=phrase(status), header_pairs=pairs, body=bad.body, **fields)

    @property
    def request_id(self) -> str | None:
        """The server's id for the request."""
        found = {name.lower(): value for name, value in self.headers}
        return next((found[name].decode("latin-1")[:200] for name in REQUEST_IDS if name in found), None)


def phrase(status: int) -> str:
    """The words that go with a status."""
    from http import HTTPStatus  # 10 ms of import, paid by who meets an error

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
