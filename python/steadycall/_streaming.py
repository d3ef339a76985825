"""A stream from its first attempt to its end: the loop, and what it raises.

Until something was shown to the caller a failure is an attempt like any other, and the policy decides; after that the
stream is interrupted, because a replay would show the same text twice. Written once, as coroutines that only the front
can make wait.
"""

from __future__ import annotations

from . import _watch
from ._delivery import REFUSED
from ._errors import Closed, DeadlineExceeded, Refused, StreamInterrupted
from ._finding import changed
from ._kinds import StopReason
from ._native import Run
from ._records import Failure
from ._scope import HERE
from ._stream_attempt import Attempt, Bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from ._admission import Admission
    from ._native import Exchange, Passing, StreamEvent
    from ._operation import BoundPolicy
    from ._stream_attempt import Blocking, Limits

    Usage = dict[str, int]


class Streaming:
    """One stream over exchanges that ``make`` makes, one an attempt, under a policy.

    ``host`` and ``url`` (without its query) are for messages, ``choices`` is how many answers the request asks for,
    ``most_bytes`` how long one may get, after content decoding.
    ``make`` may be a coroutine function of the async front. ``is_secret`` is asked of texts of the server's that are to
    be told. Where a stream stands behind the gates of a client, ``admit`` asks its ``admission`` for an attempt, after
    ``make``. ``tell`` is told of every step by name. ``others`` turn to further routes, each once, and give their URL,
    host and choices.
    """

    def __init__(
        self,
        front: Blocking,
        make: Callable[[], Exchange | Awaitable[Exchange]],
        bound: BoundPolicy,
        limits: Limits,
        *,
        url: str,
        host: str,
        choices: int = 1,
        most_bytes: int | None = None,
        is_secret: Callable[[str], bool] | None = None,
        admission: Admission | None = None,
        admit: Callable[[Run, Callable[[Passing], None]], Awaitable[Passing | None]] | None = None,
        tell: Callable[..., Any] | None = None,
        others: list[Callable[[], tuple[str, str, int]]] | None = None,
    ) -> None:
        self.front = front
        self.make = make
        self.bound = bound
        self.limits = limits
        limits.most_bytes = most_bytes
        self.url = url
        self.host = host
        self.choices = choices
        self.is_secret = is_secret or (lambda _: False)
        self.admission = admission
        self.admit = admit
        self.tell = tell or (lambda **_: None)
        self.others = others or []
        statuses = bound.policy.retry_status
        self.statuses = None if statuses is None else set(statuses)
        self.outer = HERE.get()
        self.run: Run | None = None
        self.attempt: Attempt | None = None
        self.passing: Passing | None = None
        """The way of the attempt under way through the gates."""
        self.shown = False
        """Whether the caller was given events, so that nothing may be replayed."""
        self.over = False
        self.finished = False
        """Whether it is over because the answer was read to its end."""
        self._settled = False
        """Whether the end of the attempt was told to who counts them."""
        self._spent: Usage | None = None
        """Tokens of the attempts before, as far as they were told."""
        self._last: tuple[Attempt, Bad] | None = None

    async def advance(self) -> list[StreamEvent] | None:
        """The next events, at least one; ``None`` at the end.

        Raises:
            CallError: no attempt brought content, and the policy gave up; or the stream was interrupted.
            Closed: it was closed meanwhile, by another task or thread.
        """
        try:
            while not self.over:
                found = await self._step()
                if isinstance(found, Bad):
                    await self._failed(found)
                    self.require_open()
                elif found is not None:
                    return found
                elif self.attempt is not None:
                    self.finished = True
                    await self.attempt.drain()
                    self._give_up()
        except BaseException:
            self._give_up()
            raise
        return None

    def require_open(self) -> None:
        """Go on only while nobody has closed it.

        Raises:
            Closed: somebody has.
        """
        if self.over:
            raise Closed("this stream was closed")

    async def _step(self) -> list[StreamEvent] | Bad | None:
        attempt, started = self.attempt, True
        if attempt is None:
            run, started = self._begun(), False
            made: Any = self.make()
            exchange = await made if hasattr(made, "__await__") else made
            self.require_open()
            if run.deadline_left == 0.0:
                exchange.close()
                run.barred("before_attempt", "the deadline has passed", None)
                self._ended(run, self._last)
                return None
            if self.admit is not None:
                self.passing = await self.admit(run, self._waits)
                self.require_open()
                if self.passing is None:
                    exchange.close()
                    self._ended(run, self._last)
                    return None
            attempt = self.attempt = Attempt(self.front, exchange, self.limits, (self.url, self.host))
            self._settled = False
            self.tell(name="attempt_started", number=run.number)
            bad = await attempt.open(run, self.url, self.statuses, self.choices)
            self.require_open()
            if bad is not None:
                return bad
        found = await attempt.next()
        self.require_open()
        if not started and attempt.has_started and self.run is not None:
            self.tell(name="first_delta", number=self.run.number)
        if attempt.is_answered and not self._settled:
            self._answered(attempt)
        return found

    def _waits(self, passing: Passing) -> None:
        self.passing = passing
        self.require_open()

    def _begun(self) -> Run:
        """The run, of which another attempt has begun."""
        run = self.run
        if run is None:
            bound, gates = self.bound, None if self.admission is None else self.admission.gates
            run = self.run = Run(bound.policy._checked, self.outer, bound._now, bound._draw, True, gates)
            if gates is not None:
                gates.observe_call()
        while not run.begin():
            self._ended(run, self._last)
        return run

    def _ended(self, run: Run, last: tuple[Attempt, Bad] | None) -> None:
        """The end of a route: of the stream too, when there is no other or none can help.

        Raises:
            CallError: it is that of the stream.
        """
        if self.shown or not self.others or not run.reroute():
            raise self._gave_up(run, *(last or (None, None)))
        self.url, self.host, self.choices = self.others.pop(0)()
        if last is not None:
            last[0].exchange.close()
            self._spent = self.total_usage
        self._last, self.attempt = last, None

    # How an attempt ends

    def _answered(self, attempt: Attempt) -> None:
        """Told of an end in good order.

        Raises:
            DeadlineExceeded: it came too late, and nothing of it was shown.
        """
        run = self.run
        assert run is not None and attempt.reader is not None
        self._told_gates(attempt, None)
        if not self._told_answered(run, attempt) and not self.shown:
            error = self._gave_up(run, None, None)
            error.late_result = attempt.reader.text
            raise error
        _watch.settled(run, self.total_usage, None, self.bound._on_end)

    def _told_answered(self, run: Run, attempt: Attempt) -> bool:
        self._settled = True
        in_time = run.answered(
            status=attempt.status,
            request_id=self.request_id,
            received=attempt.received,
            replays=attempt.replays,
        )
        self.tell(name="attempt_ended", number=run.number, attempt=run.attempts[-1])
        return in_time

    async def _failed(self, bad: Bad) -> None:
        """Wait before the next attempt.

        Raises:
            CallError: there is none.
        """
        run, attempt = self.run, self.attempt
        assert run is not None and attempt is not None
        passing = self._told_gates(attempt, bad.judged)
        judged = self._asked(attempt, bad)
        if self.shown:
            raise self._interrupted(run, attempt, bad)
        wait = self._told_failed(run, attempt, bad, judged, passing)
        if wait is None:
            self._ended(run, (attempt, bad))
            return
        if bad.lost is None:
            await attempt.drain()
            self.require_open()
        attempt.exchange.close()
        _watch.retried(run.attempts[-1], self.host, bad.said, self.bound._on_retry)
        self._spent = self.total_usage
        self._last, self.attempt = (attempt, bad), None
        self.tell(name="waiting", number=run.number + 1, wait=wait)
        await self.front.pause(self.bound, run, wait)

    def _told_failed(
        self, run: Run, attempt: Attempt, bad: Bad, judged: Failure, passing: Passing | None = None
    ) -> float | None:
        self._settled = True
        wait = run.failed(
            judged,
            passing=passing,
            request_id=self.request_id,
            received=attempt.received,
            fully_sent=bad.lost is not None and bad.lost.fully_sent,
            replays=attempt.replays,
        )
        self.tell(name="attempt_ended", number=run.number, attempt=run.attempts[-1])
        return wait

    def _asked(self, attempt: Attempt, bad: Bad) -> Failure:
        """The failure, without what it must not tell, and after ``retry_if`` had its say."""
        code = bad.judged.provider_code
        if code is not None and self.is_secret(code):
            bad.judged = changed(bad.judged, provider_code=None)
        judged, retry_if = bad.judged, self.bound.policy.retry_if
        if retry_if is None or self.shown:
            return judged
        error = attempt.error(bad, self.url, why=attempt.happened(bad), failure=judged, kind=judged.kind)
        said = retry_if(judged, error)
        if isinstance(said, Failure):
            return said
        return changed(judged, retryable=False) if said is False else judged

    def _told_gates(self, attempt: Attempt, judged: Failure | None) -> Passing | None:
        """Tell the gates, if there are any, that the attempt is over."""
        passing, self.passing = self.passing, None
        if passing is not None and self.admission is not None:
            # Of an answer that is not complete it may be the least: what was reserved for it stays.
            complete = attempt.reader is not None and attempt.reader.is_complete
            used = self.usage if complete and self.admission.gates.counts_tokens else None
            self.admission.record(
                passing,
                judged,
                self.url,
                cut_short=self.limits.cut_by_deadline,
                used=None if used is None else used["total_tokens"],
                headers=attempt.headers or None,
            )
        return passing

    # What is raised

    def _interrupted(self, run: Run, attempt: Attempt, bad: Bad) -> Any:
        """The error for a stream that was shown in part."""
        judged, lost = bad.judged, bad.lost
        self._told_failed(run, attempt, bad, changed(judged, retryable=False))
        cut = lost is not None and lost.reason == "attempt_timeout" and self.limits.cut_by_deadline
        stop = StopReason.DEADLINE if cut else StopReason.STREAM_STARTED
        _watch.settled(run, self.total_usage, stop, self.bound._on_end)
        said = f"{self.host}: The deadline cut the answer." if cut else attempt.happened(bad)
        why = f"{said} The answer had begun, so it is not asked for again."
        fields = self.bound._fields(run, self.host) | {"why": why, "failure": judged, "stop_reason": stop}
        cause = DeadlineExceeded(stage="attempt", **fields) if cut else attempt.error(bad, self.url, **fields)
        return self._final(self._with_partial(attempt, cause, fields))

    def _gave_up(self, run: Run, attempt: Attempt | None, bad: Bad | None) -> Any:
        """The last real failure, or why there is none."""
        stop, stage = run.stop_reason, run.stage
        _watch.settled(run, self.total_usage, stop, self.bound._on_end)
        url, host = (self.url, self.host) if attempt is None else attempt.where
        fields = self.bound._fields(run, host)
        source: Any = None
        if attempt is None or bad is None:
            late = f"the answer of {host} came too late. "
            fields["why"] = f"{late if run.attempts else f'no request to {host} was sent: '}{run.why}."
        else:
            if stage != "attempt":
                fields["why"] = f"{attempt.happened(bad)} {run.why}."
            source = attempt.error(bad, url, **fields)
            if attempt.has_started:
                source = self._with_partial(attempt, source, fields)
        if stage is not None:
            error: Any = DeadlineExceeded(stage=stage, **fields)
            error.__cause__ = source
        else:
            error = REFUSED.get(stop, Refused)(**fields) if source is None else source
        return self._final(error)

    def _with_partial(self, attempt: Attempt, cause: Exception, fields: dict[str, Any]) -> Exception:
        reader = attempt.reader
        assert reader is not None
        parts = {"partial": reader.text, "events": reader.last, "usage": reader.usage, "run_id": self.run_id}
        error = StreamInterrupted(**fields | parts | {"sent": "maybe"})
        error.__cause__ = cause
        return error

    def _final(self, error: Any) -> Any:
        self.tell(name="gave_up", stop_reason=error.stop_reason)
        if self.outer is not None:
            self.outer.gave_up(error)
        return error

    # The end

    def _give_up(self) -> None:
        """Leave the queue, and close the socket unless the answer was read to its end; nothing follows."""
        self.over = True
        passing, self.passing = self.passing, None
        if passing is not None:
            passing.give_up()
        if self.attempt is not None:
            self.attempt.exchange.close()
        if self.run is not None:
            self.run.end()

    def close(self) -> None:
        """Closed by who reads it: what was given is the answer."""
        if self.over:
            return
        run, attempt = self.run, self.attempt
        if attempt is not None and attempt.has_started:
            self._told_gates(attempt, None)
        self._give_up()
        if run is not None and attempt is not None and attempt.has_started and not self._settled:
            self._told_answered(run, attempt)
            _watch.settled(run, self.total_usage, None, self.bound._on_end)

    # What is known

    @property
    def request_id(self) -> str | None:
        """The server's id for the last request."""
        return self._tellable(None if self.attempt is None else self.attempt.request_id)

    @property
    def run_id(self) -> str | None:
        """The provider's id for the answer."""
        reader = None if self.attempt is None else self.attempt.reader
        return self._tellable(None if reader is None else reader.run_id)

    def _tellable(self, told: str | None) -> str | None:
        return None if told is None or self.is_secret(told) else told[:200]

    @property
    def usage(self) -> Usage | None:
        """Tokens the attempt under way told of."""
        reader = None if self.attempt is None else self.attempt.reader
        return None if reader is None else reader.usage

    @property
    def total_usage(self) -> Usage | None:
        """Those of all attempts: they were billed."""
        now, before = self.usage, self._spent
        if now is None or before is None:
            return before if now is None else now
        return {name: before[name] + count for name, count in now.items()}
