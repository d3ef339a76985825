"""One request of a transport from its first attempt to what its client is given: the loop, and what an answer is.

Written once, as coroutines that only the carrier can make wait. The core decides on retries and judges answers; here an
answer is read as far as the judgement needs: errors and JSON whole, a stream up to its first content, the rest not.
"""

from __future__ import annotations

import time

from . import _watch
from ._carrier import WHOLE, Lost
from ._errors import (
    AttemptTimeout,
    CircuitOpen,
    DeadlineExceeded,
    HTTPStatusError,
    QueueFull,
    Refused,
    RequestBudgetSpent,
)
from ._family import ERRORS, LOST, family_of
from ._finding import changed
from ._found import REQUEST_IDS, Bad, Good, says_json, usage_of
from ._kinds import StopReason
from ._native import Run, StreamOpening, gives_away, judge, model_of
from ._records import Failure
from ._scope import HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._admission import Admission
    from ._carrier import Answer
    from ._family import Family
    from ._native import Passing
    from ._operation import BoundPolicy

    Usage = dict[str, int]


class Delivery:
    """One request, carried by ``carrier`` under a policy."""

    def __init__(
        self, bound: BoundPolicy, carrier: Any, request: Any, *, hold: bool, admission: Admission | None = None
    ) -> None:
        self.bound = bound
        self.admission = admission
        self.passing: Passing | None = None
        """The way of the attempt under way through the gates of a client."""
        self.carrier = carrier
        self.request = request
        self.family: Family = family_of(request)
        self.host = request.url.host
        self.url = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}{request.url.path}"
        self.body = b""
        self.hold = hold
        self.statuses = None if bound.policy.retry_status is None else set(bound.policy.retry_status)
        self.cut_by_deadline = False
        """Whether the attempt under way ends where the deadline does, and not by an attempt timeout before it."""
        self.final: Any = None
        """The error of ours that ended it, if one did."""
        self.engine: Run | None = None
        self._on_event = None if admission is None else admission.on_event
        self._model = ""

    async def run(self, body: bytes) -> tuple[Any, Good | None]:
        """Send it until it is answered or the policy gives up: the response, or an answer whose body is still coming,
        the end of which ``settle`` is told.

        Raises:
            Exception: of the request's family and ours: no answer came, or no time or request was left.
        """
        outer = HERE.get()
        gates = None if self.admission is None else self.admission.gates
        run = self.engine = Run(self.bound.policy._checked, outer, self.bound._now, self.bound._draw, True, gates)
        self.body = body
        if self._on_event is not None:
            self._model = model_of(self.request.url.path, body)
        found: Good | Bad | None = None
        try:
            if gates is not None:
                gates.observe_call()
            while run.begin():
                if self.admission is not None and not await self.admit(run, body):
                    return self.gave_up(run, found, outer)
                self.tell(name="attempt_started", number=run.number)
                limit, left = run.timeout, run.deadline_left
                # Read one after the other on a clock that goes on, so that what is left is the smaller.
                self.cut_by_deadline = left is not None and limit is not None and left <= limit
                try:
                    found = await self.attempt(body, limit)
                except Lost as lost:
                    found = Bad(lost.judged, lost=lost)
                if isinstance(found, Good):
                    if found.whole:
                        self.told(None, found)
                    if self.answered(run, found):
                        return self.given(found)
                    await found.answer.close()
                    self.left()
                    return self.gave_up(run, None, outer)
                passing = self.told(found.judged, found)
                judged = self.asked(found)
                wait = run.failed(
                    judged,
                    passing=passing,
                    request_id=self.request_id(found.answer),
                    received=len(found.body),
                    fully_sent=found.lost is not None and found.lost.fully_sent,
                    replays=getattr(found.answer or found.lost, "replays", 0),
                )
                self.tell_ended(run)
                if wait is None:
                    return self.gave_up(run, found, outer)
                _watch.retried(run.attempts[-1], self.host, judged.reason, self.bound._on_retry)
                self.tell(name="waiting", number=run.number + 1, wait=wait)
                await self.carrier.pause(self.bound, run, wait)
            return self.gave_up(run, found, outer)
        except BaseException:
            self.left()
            raise
        finally:
            run.end()

    # The gates

    async def admit(self, run: Run, body: bytes) -> bool:
        """Whether the gates let the attempt through."""
        assert self.admission is not None
        url = self.request.url
        host = url.netloc.decode("ascii")
        tell = None if self._on_event is None else self.tell
        self.passing = await self.admission.admit(run, host, url.path, self.request.headers.raw, body, tell=tell)
        return self.passing is not None

    def told(self, judged: Failure | None, found: Good | Bad, used: Usage | None = None) -> Passing | None:
        """Tell the gates what came of the attempt, which used so many tokens where its answer does not say it."""
        passing, self.passing = self.passing, None
        if passing is not None and self.admission is not None:
            if isinstance(found, Good) and found.whole and self.admission.gates.counts_tokens:
                used = usage_of(found)
            self.admission.record(
                passing,
                judged,
                self.url,
                cut_short=self.cut_by_deadline,
                used=None if used is None else used["total_tokens"],
                headers=None if found.answer is None else found.answer.headers,
            )
        return passing

    def left(self) -> None:
        """Give an attempt up of which nothing is to be said."""
        passing, self.passing = self.passing, None
        if passing is not None:
            passing.give_up()

    def tell(self, **fields: Any) -> None:
        """Tell ``on_event`` of the client."""
        if self._on_event is not None:
            _watch.event(self._on_event, self.request.url.netloc.decode("ascii"), self._model, **fields)

    def tell_ended(self, run: Run) -> None:
        """Tell it of an attempt that is over."""
        if self._on_event is not None:
            self.tell(name="attempt_ended", number=run.number, attempt=run.attempts[-1])

    # One attempt

    async def attempt(self, body: bytes, limit: float | None) -> Good | Bad:
        """Send it once and judge what comes.

        Raises:
            Lost: no answer came, or not as much of it as the judgement needs.
        """
        answer = await self.carrier.open(self.request, body, limit)
        try:
            found = await self.look(answer)
        except BaseException:
            await answer.close()
            raise
        if isinstance(found, Bad):
            await answer.close()
        return found

    async def look(self, answer: Answer) -> Good | Bad:
        """Judge an answer, reading as much of it as that needs."""
        if answer.status >= 400:
            try:
                content = await answer.read(WHOLE)
            except Lost as lost:
                content = lost.partial  # an error body that was cut short is still that error
            found = judge(answer.status, answer.headers, content, self.url, time.time(), self.statuses)
            if found is not None:
                return Bad(found[0], answer=answer, body=content)
            return Good(answer, [content], whole=True)
        if not 200 <= answer.status < 300 or self.request.method == "HEAD":
            return Good(answer, [], whole=False)
        if says_json(answer.headers):
            content = await answer.read(WHOLE)
            if self.request.method == "GET":
                # A record that was asked for may tell of a failure long past.
                return Good(answer, [content], whole=True)
            found = judge(answer.status, answer.headers, content, self.url, time.time(), self.statuses)
            # What is shown as it came is the client's to judge: a blocked prompt, a finish reason.
            if found is not None and found[1] is not None:
                return Bad(found[0], answer=answer, body=content, shown=found[1])
            return Good(answer, [content], whole=True)
        opening = StreamOpening.of(answer.status, answer.headers, self.url, time.time(), self.statuses)
        if opening is None or self.request.method == "GET":
            return Good(answer, [], whole=False)
        if not self.hold:
            return Good(answer, [], whole=False, has_events=True)
        return await self.open_stream(answer, opening)

    async def open_stream(self, answer: Answer, opening: StreamOpening) -> Good | Bad:
        """Hold the opening bytes of a stream back until content comes."""
        held: list[bytes] = []
        while True:
            piece = await answer.read()
            found = opening.feed(piece) if piece else opening.end()
            held.append(piece)
            if found is True:
                return Good(answer, held, whole=False, has_events=True)
            if found is None:
                continue
            judged, shown = found
            if shown is None:
                # It ended too early, and no error says why.
                reason = "truncated" if any(held) else "empty_body"
                detail = "the stream ended before its first content"
                return Bad(judged, lost=Lost(judged, reason=reason, detail=detail), body=b"".join(held))
            return Bad(judged, answer=answer, body=b"".join(held), shown=shown)

    def asked(self, found: Bad) -> Failure:
        """The failure, without what it must not tell, and after ``retry_if`` had its say."""
        found.judged = self.tellable(found.judged)
        retry_if = self.bound.policy.retry_if
        if retry_if is None:
            return found.judged
        said = retry_if(found.judged, self.as_error(found))
        if isinstance(said, Failure):
            return said
        return changed(found.judged, retryable=False) if said is False else found.judged

    def as_error(self, found: Bad) -> BaseException:
        """What ``call`` would raise for it."""
        if found.lost is not None:
            return found.lost.error or self.lost_error(found.lost, why=found.lost.detail, failure=found.judged)
        headers = [] if found.answer is None else found.answer.headers
        status = 0 if found.answer is None else found.answer.status
        return HTTPStatusError(
            url=self.url,
            code=status if found.shown is None else found.shown[0],
            msg="",
            header_pairs=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
            body=found.body,
            why=found.judged.reason,
            failure=found.judged,
            kind=found.judged.kind,
        )

    def request_id(self, answer: Answer | None) -> str | None:
        """The server's id for the request."""
        found = {} if answer is None else {name.lower(): value for name, value in answer.headers}
        told = next((found[name].decode("latin-1")[:200] for name in REQUEST_IDS if name in found), None)
        return None if told is None or self.is_secret(told) else told

    def tellable(self, judged: Failure) -> Failure:
        """The failure, without what it must not tell."""
        secret = judged.provider_code is not None and self.is_secret(judged.provider_code)
        return changed(judged, provider_code=None) if secret else judged

    def is_secret(self, text: str) -> bool:
        """Whether a text of the server's gives a credential of the request away."""
        return gives_away(text, self.request.headers.raw, str(self.request.url))

    # How it ends

    def answered(self, run: Run, found: Good) -> bool:
        """Whether the answer came in time."""
        if not found.whole and run.deadline_left != 0.0:
            return True  # what there is to tell of it is told at its end
        if not self.told_answered(run, found, sum(map(len, found.held))):
            return False
        on_end = self.bound._on_end
        _watch.settled(run, usage_of(found) if on_end is not None else None, None, on_end)
        return True

    def told_answered(self, run: Run, found: Good, received: int) -> bool:
        """Told of an answer, and whether it came in time."""
        answer = found.answer
        is_watched = self.bound._on_end is not None or self._on_event is not None
        known = self.request_id(answer) if is_watched else None
        in_time = run.answered(status=answer.status, request_id=known, received=received, replays=answer.replays)
        self.tell_ended(run)
        return in_time

    def settle(
        self,
        found: Good,
        judged: Failure | None,
        *,
        received: int,
        usage: Usage | None = None,
        used: Usage | None = None,
        stop: StopReason = StopReason.STREAM_STARTED,
        has_content: bool = True,
    ) -> None:
        """Told how an answer ended whose body was given out as it came: in good order, or by a failure.

        ``usage`` is what it told of its tokens, ``used`` the same if that is all of them. Without content a good end
        says nothing to the gates.
        """
        run, answer = self.engine, found.answer
        assert run is not None
        if judged is not None or has_content:
            self.told(judged, found, used)
        else:
            self.left()
        if judged is None:
            self.told_answered(run, found, received)
            _watch.settled(run, usage, None, self.bound._on_end)
            return
        final = changed(self.tellable(judged), retryable=False)
        run.failed(final, request_id=self.request_id(answer), received=received, replays=answer.replays)
        self.tell_ended(run)
        self.tell(name="gave_up", stop_reason=stop)
        _watch.settled(run, usage, stop, self.bound._on_end)

    def given(self, found: Good) -> tuple[Any, Good | None]:
        """The response, or the answer itself where its body is still coming."""
        answer = found.answer
        if not found.whole:
            return None, found
        stream = self.family.whole(b"".join(found.held))
        return self.family.response(answer.status, answer.headers, stream, answer.version), None

    def gave_up(self, run: Run, found: Good | Bad | None, outer: Any) -> tuple[Any, None]:
        """The last real answer, marked so that no client starts again.

        Raises:
            Exception: there is none, or the deadline is why no further attempt was made.
        """
        stop = run.stop_reason
        self.tell(name="gave_up", stop_reason=stop)
        _watch.settled(run, None, stop, self.bound._on_end)
        if isinstance(found, Good):
            found = None
        if found is not None and found.answer is not None and run.stage is None:
            return self.shown(found.answer, found, stop), None
        fields = self.bound._fields(run, self.host)
        source = None if found is None else self.as_error(found)
        if run.stage is not None:
            error = self.family.error(DeadlineExceeded, "TimeoutException", self.request, stage=run.stage, **fields)
            error.__cause__ = source
        elif found is None or found.lost is None:
            refused = REFUSED.get(stop, Refused)
            error = self.family.error(refused, "TransportError", self.request, **fields)
        elif found.lost.error is not None:
            error = found.lost.error
            error.add_note(f"steadycall: {run.why}.")
        else:
            error = self.lost_error(found.lost, **fields)
        if found is None or found.lost is None or found.lost.error is None or run.stage is not None:
            self.final = error
        if outer is not None:
            outer.gave_up(error)
        raise error

    def lost_error(self, lost: Lost, **fields: Any) -> Any:
        """The error for an attempt that brought no answer."""
        ours, theirs = ERRORS.get(lost.reason, LOST)
        if issubclass(ours, AttemptTimeout):
            fields["phase"] = lost.phase or lost.reason.removesuffix("_timeout")
        return self.family.error(ours, theirs, self.request, detail=lost.detail, **fields)

    def shown(self, answer: Answer, found: Bad, stop: StopReason | None) -> Any:
        """The last answer as the client is to see it."""
        status, body = answer.status, found.body
        # The length is that of what was received; decoding and a cut have changed it.
        dropped = {b"content-length", b"x-should-retry"}
        marks = [(b"x-should-retry", b"false"), (b"x-steadycall-stop", str(stop or "").encode())]
        if found.shown is not None:
            marks += [(b"x-steadycall-status", str(status).encode()), (b"content-type", b"application/json")]
            dropped.add(b"content-type")
            status, body = found.shown
        headers = [pair for pair in answer.headers if pair[0].lower() not in dropped]
        return self.family.response(status, headers + marks, self.family.whole(body), answer.version)


REFUSED: dict[StopReason | None, type[Refused]] = {
    StopReason.REQUEST_BUDGET: RequestBudgetSpent,
    StopReason.BREAKER_OPEN: CircuitOpen,
    StopReason.QUEUE_FULL: QueueFull,
}
"""What is raised when nothing was sent."""
