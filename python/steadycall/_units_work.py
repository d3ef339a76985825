"""What a unit does, in order, for both fronts: it yields what is to be run, and is sent what came of it."""

from __future__ import annotations

from functools import partial
from sys import exception
from types import CoroutineType

from . import _watch
from ._chain import walk
from ._errors import ConfigError
from ._exceptions import judge
from ._function import name_of, note, raise_as_it_is
from ._kinds import StopReason
from ._loop import cancelling, running_loop
from ._operation import BoundPolicy
from ._units_end import End, of_call, said, sent_nothing
from ._units_layer import Flag, PatientTimer, Unit
from ._units_record import UnitOutcome, UnitRecord, UnitResult
from ._usage import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from ._loop import Timer
    from ._native import Run
    from ._policy import Policy
    from ._records import CallRecord, Failure

    Steps = Generator[Callable[[], Any], Any, UnitResult]


PLAIN = "a plain callable (a coroutine function needs arun)"

HOLDERS = (bytes, bytearray, list, tuple, dict, set, frozenset)
"""What may be an answer with nothing in it, besides text; a number is none."""


class Terms:
    """What all units of a group have in common."""

    __slots__ = ("flag", "format_tries", "gone", "hooks", "on_unit", "policy", "stop_on")

    def __init__(
        self,
        policy: Policy,
        hooks: dict[str, Any],
        format_tries: int,
        stop_on: frozenset[str],
        gone: tuple[type[BaseException], ...],
        on_unit: Callable[[UnitRecord], Any] | None,
    ) -> None:
        self.policy = policy
        self.hooks = hooks
        self.format_tries = format_tries
        self.stop_on = stop_on
        self.gone = gone
        self.on_unit = on_unit
        self.flag = Flag()


class Call(BoundPolicy):
    """One call of a unit with its transport retries: on a clock of its own, and it remembers how it failed."""

    __slots__ = ("clock", "failed_with", "final", "told", "unit")

    def __init__(self, terms: Terms, unit: Unit, validate: Any) -> None:
        clock = unit.next_call()
        told = Told(terms.hooks["on_end"])
        super().__init__(terms.policy, **{**terms.hooks, "validate": validate, "clock": clock, "on_end": told})
        self.clock = clock
        self.unit = unit
        self.told = told
        self.failed_with: Failure | None = None
        self.final = False

    def judged(
        self, run: Run, judged: Failure, error: BaseException | None, *args: Any, final: bool = False, **more: Any
    ) -> Any:
        """As of every policy, and kept."""
        self.failed_with, self.final = judged, final
        if final and error is not None and sent_nothing(error) and is_unused(run, self.unit):
            self.unit.refund()
        return super().judged(run, judged, error, *args, final=final, **more)

    def timer(self, limit: float) -> Timer:
        """One that grants the time in line."""
        return PatientTimer(running_loop(), limit, self.clock)


def is_unused(run: Run, unit: Unit) -> bool:
    """Whether no layer below made the request that the attempt under way was paid for."""
    left, around = run.left(), unit.left()
    return left is not None and around is not None and left > around


class Told:
    """Keeps how a call went, and tells the caller's own ``on_end``."""

    __slots__ = ("_on_end", "record")

    def __init__(self, on_end: Callable[[CallRecord], Any] | None) -> None:
        self._on_end = on_end
        self.record: CallRecord | None = None
        """``None`` until the call gave an answer or gave up."""

    def __call__(self, record: CallRecord) -> None:
        self.record = record
        _watch.ended(record, self._on_end)


class Work:
    """One unit under way."""

    def __init__(self, terms: Terms, unit: Unit, name: str | None, *, awaits: bool, **given: Any) -> None:
        self.terms = terms
        self.unit = unit
        self.name = name
        self.awaits = awaits
        self.call, self.validate = given["call"], given["validate"]
        if self.validate is None:
            self.validate = not_empty
        self.save, self.alive = given["save"], given["alive"]
        self.seconds = 0.0
        self.usage: dict[str, int] | None = None
        self.outside = exception()

    def steps(self) -> Steps:
        """All of it, up to the result.

        Raises:
            BaseException: a wish to stop, or the caller's word that the target is gone.
        """
        end: End | None = None
        try:
            with self.unit:
                end = yield from self._ask()
            if end.outcome is UnitOutcome.SAVED:
                end = yield from self._keep(end.answer)
            elif end.is_among(self.terms.stop_on):
                why = end.cause if end.failed is None else end.failed.reason
                self.terms.flag.put_up(f"{self.name or 'Another unit'} ended: {why}")
        except BaseException as error:
            if isinstance(error, self.terms.gone):
                self._settled(End(UnitOutcome.TARGET_GONE, f"{type(error).__name__} says that the target is gone."))
            else:
                self._settled(End(UnitOutcome.STOPPED, f"{type(error).__name__} ended it."))
            raise
        else:
            record = self._settled(end)
            return UnitResult(record=record, answer=end.answer, saved=end.saved, error=end.error)
        finally:
            end = None  # an error holds this frame, which must not hold it

    def _ask(self) -> Generator[Callable[[], Any], Any, End]:
        """Call until an answer is good, or no further call may help."""
        end: End | None = None
        error: BaseException | None = None
        try:
            for _ in range(self.terms.format_tries):
                if (refused := self._refusal()) is not None:
                    return self._refused(refused, end)
                error = None
                call = Call(self.terms, self.unit, self.validate)
                try:
                    answer = yield partial(call.acall if self.awaits else call.call, self.call)
                except (Exception, BaseExceptionGroup) as raised:
                    error = raised
                finally:
                    self._add(call)
                if error is None:
                    return End(UnitOutcome.SAVED, answer=answer)
                self._raise_if_gone(error)
                self._raise_if_misused(error)
                end = self._failed(call, error)
                if end.outcome is not UnitOutcome.FORMAT_FAILED:
                    break
            assert end is not None  # one try at least is made
            return end
        finally:
            error = end = None  # as above

    def _failed(self, call: Call, error: BaseException) -> End:
        """How a call ended that gave no answer."""
        record = call.told.record
        if record is None:
            # A hook of the caller's failed, such as his sleep; that says nothing of the call.
            failed = judge(error, self.outside, not_cancelled=cancelling() == 0).failure
            return of_call(error, failed, False, None, None, None)
        stop, refused, left = record.stop_reason, self.unit.refused, self.unit.left()
        end = of_call(error, call.failed_with, call.final, stop, refused, left)
        if end.for_want:
            return self._refused(end.outcome, end)
        if end.outcome is UnitOutcome.DEADLINE and self.unit.is_overdue():
            end.cause = f"The call_limit of {self.unit.call_limit:g} s was over. Before that: {end.cause}"
        return end

    def _keep(self, answer: Any) -> Generator[Callable[[], Any], Any, End]:
        """Save the answer, if that is still wanted."""
        if (refused := self._discarded()) is not None:
            return refused
        doing = "alive"
        error: BaseException | None = None
        try:
            try:
                if self.alive is not None:
                    alive = yield self._plain("alive", self.alive)
                    if not alive:
                        return End(UnitOutcome.TARGET_GONE, "The target was gone before the answer could be saved.")
                    if (refused := self._discarded()) is not None:
                        return refused  # asking took its time
                doing = "save"
                saved = yield self._plain("save", self.save, answer)
                return End(UnitOutcome.SAVED, answer=answer, saved=saved)
            except (Exception, BaseExceptionGroup) as raised:
                error = raised
            self._raise_if_gone(error)
            found = judge(error, self.outside, not_cancelled=cancelling() == 0).failure
            return End(UnitOutcome.SAVE_FAILED, f"{doing} failed: {said(error, found)}", error, answer=answer)
        finally:
            error = None  # as above

    def _plain(self, field: str, fn: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        """``fn``, which the front that blocks must be able to run."""
        if self.awaits:
            return partial(fn, *args)

        def run() -> Any:
            given = fn(*args)
            if given.__class__ is CoroutineType:
                given.close()
                raise ConfigError(field, name_of(fn), PLAIN)
            return given

        return run

    def _refusal(self) -> UnitOutcome | None:
        refused = self.unit.refusal()
        if refused is None and self.unit.left() == 0:
            return UnitOutcome.BUDGET_EXHAUSTED
        return refused

    def _refused(self, outcome: UnitOutcome, last: End | None) -> End:
        """The end of a unit that may make no further request, or not the first one."""
        stop: StopReason | None = None
        stopped = outcome is UnitOutcome.STOPPED
        if stopped:
            why = f"The group was stopped: {self._stopped_by()}"
        elif outcome is UnitOutcome.DEADLINE:
            why, stop = "No call may begin any more.", StopReason.DEADLINE
        else:
            why, stop = "The requests of the unit, or of a scope around it, are used up.", StopReason.REQUEST_BUDGET
        failed = None if last is None else last.failed
        if failed is not None:
            why = f"{why} Before that: {failed.reason}"
        if stopped and last is not None and last.error is not None:
            note(last.error, why)  # the error itself only knows that no request was left
        return End(outcome, why, None if last is None else last.error, failed=failed, stop=stop)

    def _stopped_by(self) -> str:
        return f"{(self.terms.flag.why or '').rstrip('.')}."

    def _discarded(self) -> End | None:
        """The end of a unit whose answer came after the group was stopped."""
        if self.terms.flag.why is None:
            return None
        why = f"The group was stopped before the answer could be saved: {self._stopped_by()}"
        return End(UnitOutcome.STOPPED, why)

    def _raise_if_gone(self, error: BaseException) -> None:
        """Raise the caller's word that the target is gone, as itself, if it stands anywhere behind ``error``."""
        found = gone_behind(error, self.terms.gone, self.outside)
        if found is not None:
            raise_as_it_is(found)

    def _raise_if_misused(self, error: BaseException) -> None:
        """Raise that ``call`` is for the other front, which no retry and no other unit would get past."""
        name = name_of(self.call)
        if isinstance(error, ConfigError) and (error.field, error.value) == ("fn", name):
            other = "a coroutine function (a plain one needs run)" if self.awaits else PLAIN
            raise ConfigError("call", name, other) from None

    def _add(self, call: Call) -> None:
        record = call.told.record
        self.seconds += call.clock.elapsed() if record is None else record.elapsed
        self.usage = self.usage if record is None else join(self.usage, record.usage)

    def _settled(self, end: End) -> UnitRecord:
        """Tell how it ended, once."""
        record = UnitRecord(
            name=self.name,
            outcome=end.outcome,
            cause=end.cause,
            requests=self.unit.spent,
            call_seconds=self.seconds,
            usage=self.usage,
            kind=None if end.failed is None else end.failed.kind,
            stop_reason=end.stop,
        )
        _watch.unit_settled(record, self.terms.on_unit)
        return record


def not_empty(answer: object) -> None:
    """What judges an answer where nobody else does.

    Raises:
        ValueError: there is nothing in it.
    """
    blank = isinstance(answer, str) and not answer.strip()
    if answer is None or blank or (isinstance(answer, HOLDERS) and not answer):
        raise ValueError("the answer is empty")


def gone_behind(
    error: BaseException, gone: tuple[type[BaseException], ...], outside: BaseException | None = None
) -> BaseException | None:
    """The first exception of a chain that is one of the types."""
    return next((found for _, found in walk(error, outside) if isinstance(found, gone)), None) if gone else None


def drive(steps: Steps) -> UnitResult:
    """Run them one after the other."""
    try:
        step = next(steps)
        while True:
            failed = came = None
            try:
                came = step()
            except BaseException as error:
                failed = error
            step = steps.send(came) if failed is None else steps.throw(failed)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # of the generator, whose type says so
    finally:
        failed = came = None  # an error holds this frame, which must not hold it


async def adrive(steps: Steps) -> UnitResult:
    """The same; what can be awaited is."""
    try:
        step = next(steps)
        while True:
            failed = came = None
            try:
                came = step()
                if hasattr(came, "__await__"):
                    came = await came
            except BaseException as error:
                failed = error
            step = steps.send(came) if failed is None else steps.throw(failed)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # as above
    finally:
        failed = came = None  # as above
