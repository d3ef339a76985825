"""The body of an answer that a transport gives to its client as it comes, and what its end says of the attempt.

The bytes are handed on untouched. The events of a stream are read as they pass, because nothing else tells whether the
answer is complete, which error ended it, and what it cost.
"""

from __future__ import annotations

import time

from ._carrier import Lost
from ._errors import DeadlineExceeded
from ._kinds import StopReason
from ._native import Events, choices_of, failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._delivery import Delivery
    from ._found import Good
    from ._records import Failure

LINGER = 0.05
"""Seconds that the end of a complete answer is waited for, so that its connection can be used again."""


class Body:
    """The body of an answer that is given to the client as it comes: what was held back, then the rest."""

    def __init__(self, found: Good, delivery: Delivery) -> None:
        self.found = found
        self.delivery = delivery
        self._received = 0
        self._is_being_read = False
        self._over = False
        """Whether nothing more comes."""
        self._settled = False
        self._reader: Events | None = None
        if found.has_events:
            answer, asked = found.answer, choices_of(delivery.body)
            self._reader = Events(answer.status, answer.headers, delivery.url, time.time(), delivery.statuses, asked)
        for piece in found.held:
            self._feed(piece)
        reader = self._reader
        if reader is not None and reader.failure is not None and not reader.has_started:
            # Given out although it tells of a failure: a blocked prompt is the client's to judge.
            self._reader = None
        self._look()

    def held(self) -> list[bytes]:
        """What was read before it was given out."""
        return [piece for piece in self.found.held if piece]

    async def more(self) -> bytes:
        """The next piece after those; empty at the end.

        Raises:
            Exception: of the family and ours, when it breaks; nothing is retried any more.
        """
        try:
            self._is_being_read = True
            piece = await self.found.answer.read()
        except Lost as lost:
            if not self._is_complete:
                raise self._broken(lost) from None
            piece = b""  # what broke was not the answer
        except BaseException:
            # A stream that is cancelled is told to nobody.
            self._over = self._settled = True
            self.delivery.left()
            raise
        finally:
            self._is_being_read = False
        if piece:
            self._feed(piece)
            self._look()
            return piece
        self._over = True
        cut = self._end()
        if cut is not None:
            raise self._broken(cut)
        self._settle(None)
        return piece

    async def close(self) -> None:
        """Give up what was not read: who closes a stream early had his answer."""
        answer = self.found.answer
        try:
            if not self._over and not self._is_being_read and self._is_complete:
                end = time.monotonic() + LINGER
                while (left := end - time.monotonic()) > 0 and (piece := await answer.read_within(left)):
                    self._feed(piece)
            self._look()
            self._settle(None)
        finally:
            self._over = self._settled = True
            await answer.close()
            self.delivery.left()

    # What the events tell

    @property
    def _is_complete(self) -> bool:
        return self._reader is not None and self._reader.is_complete

    def _feed(self, piece: bytes) -> None:
        self._received += len(piece)
        reader = self._reader
        if reader is None or reader.is_over or not piece:
            return
        started = reader.has_started
        reader.feed(piece)
        if not started:
            self._tell_start(reader)

    def _tell_start(self, reader: Events) -> None:
        run = self.delivery.engine
        if run is not None and reader.has_started:
            self.delivery.tell(name="first_delta", number=run.number)

    def _look(self) -> None:
        """Tell of an error among the events at once; what is said of it to the client is in the bytes."""
        if self._reader is not None and self._reader.failure is not None:
            self._settle(self._reader.failure)

    def _end(self) -> Lost | None:
        """Told that the body is over: what cut it short, if anything did."""
        reader = self._reader
        if reader is None or reader.is_over:
            return None
        started = reader.has_started
        reader.end()
        if not started:
            self._tell_start(reader)
        if reader.failure is None:
            return None
        return Lost(reader.failure, reason="truncated", detail="the stream ended before its end")

    # What is told

    def _broken(self, lost: Lost) -> Exception:
        """The error for a body that broke."""
        delivery, judged = self.delivery, lost.judged
        cut = delivery.cut_by_deadline and judged.reason == _CUT
        stop = StopReason.DEADLINE if cut else StopReason.STREAM_STARTED
        self._over = True
        self._settle(judged, stop)
        if lost.error is not None:
            return lost.error  # type: ignore[return-value]  # the user's transport raised it, as an Exception
        reason = "The deadline cut the answer." if cut else judged.reason
        why = f"{delivery.host}: {reason} The answer had begun, so it is not asked for again."
        fields = {"why": why, "failure": judged, "kind": judged.kind, "sent": "maybe"}
        if cut:
            fields |= {"stage": "attempt", "stop_reason": stop}
            return delivery.family.error(DeadlineExceeded, "TimeoutException", delivery.request, **fields)  # type: ignore[no-any-return]  # ours and the family's
        return delivery.lost_error(lost, **fields)  # type: ignore[no-any-return]  # as above

    def _settle(self, judged: Failure | None, stop: StopReason = StopReason.STREAM_STARTED) -> None:
        """Tell, once, how it ended."""
        if self._settled:
            return
        self._settled = True
        reader, received = self._reader, self._received
        has_content = received > 0 if reader is None else reader.has_started
        usage = None if reader is None else reader.usage
        self.delivery.settle(
            self.found,
            judged,
            received=received,
            usage=usage,
            # Of an answer that is not complete it may be the least: what was reserved for it stays.
            used=usage if self._is_complete else None,
            stop=stop,
            has_content=has_content or self._over,
        )


_CUT = failure("attempt_timeout", "maybe").reason
