"""``UnitGroup``: many pieces of one job, each of which asks a model, checks the answer and saves it."""

from __future__ import annotations

from ._errors import ConfigError
from ._fields import read_types
from ._function import awaited, name_of
from ._hooks import check_sleep
from ._kinds import FailureKind, StopReason
from ._loop import running_loop
from ._native import callback, count, seconds
from ._operation import BoundPolicy
from ._retry import bind
from ._time import Deadline, read_clock
from ._units_layer import Unit
from ._units_record import UnitRecord, UnitResult
from ._units_work import PLAIN, Terms, Work, adrive, drive, gone_behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any

    from ._fields import Types
    from ._hooks import Rng, Sleep
    from ._policy import Policy
    from ._records import AttemptRecord, Failure
    from ._time import Clock, Seconds

STOP_ON = frozenset({FailureKind.RATE_LIMITED, StopReason.BREAKER_OPEN})
"""What stops a group unless it is told otherwise: what the other units would run into as well."""

FORMAT_TRIES = 2
"""Calls of a unit whose answers come in the wrong form, unless the policy has ``validation_tries``."""


class UnitGroup:
    """Units of work that share one time budget and one fate: ``UnitGroup(policy, 3600, 600, 6).run(call=..., save=...)``.

    A unit calls a model, validates the answer and saves it; any number of threads and tasks may run units of one
    group at once. Make the group where the job begins: its time counts from there.

    It guarantees:

    - No request begins at or after start + ``runtime_limit`` - ``call_limit``, neither a first one nor a retry. So
      everything that obeys its call limit is over when ``runtime_limit`` is.
    - No unit makes more than ``max_requests_per_unit`` requests. Transport failures are retried as the policy says,
      and never started again once it gave up. Only an answer in the wrong form - no JSON, not valid, unfinished or
      empty - is called for once more, with fresh transport tries.
    - ``save`` is called at most once for a unit, with a validated answer; never after the group was stopped, and only
      if ``alive`` said so just before. A failed save never calls the model again.
    - Each unit has exactly one outcome, and ``on_unit`` is told it once.

    It does not guarantee:

    - That work which was sent is undone: a request under way when the group is stopped goes on, may be billed, and
      its answer is discarded. Nor is a wait before a retry cut short; nothing follows it.
    - That a plain function is cut at ``call_limit``: it is told by ``current_attempt().timeout`` and must obey. A
      coroutine function is cut. An answer that comes too late is no answer.
    - That nothing is saved after the group was stopped: a ``save`` that had begun ends, and what was saved stays.
    - That the target lives while ``save`` runs: it may die after ``alive`` was asked. Where that matters, ``save``
      does both in one transaction.
    - That requests are counted which no layer of steadycall makes: a run of ``call`` that asks by none counts as one.

    Args:
        policy: how transport failures are retried: a ``Policy``, or what its ``bind`` gave; its ``validation_tries``
            is how many answers may fail their form, 2 when it has none. A ``deadline`` of its own bounds each call.
        runtime_limit: seconds for all units together, from now; or a ``Deadline`` that was handed down.
        call_limit: seconds one call may take with its transport retries, counted from its first permit; less than
            ``runtime_limit``.
        max_requests_per_unit: most requests one unit may make; ``None`` is not limited.
        stop_on: the ``FailureKind`` and ``StopReason`` members that stop the group when the call of a unit *ended* by
            one of them. By default a rate limit that retries did not get past, and an open breaker.
        gone: exception types of yours that say that the target is gone. One that is found in the chain of what
            ``call``, ``validate``, ``save`` or ``alive`` raised is raised as itself, and never retried.
        on_unit: told each unit that settled, as a ``UnitRecord``; a plain callable, also for ``arun``.
        sleep, clock, rng, on_retry: as for ``Policy.bind``; they go before those of a bound policy.

    Raises:
        ConfigError: a value that makes no sense.
    """

    def __init__(
        self,
        policy: Policy | BoundPolicy,
        runtime_limit: Seconds | Deadline,
        call_limit: Seconds,
        max_requests_per_unit: int | None = None,
        *,
        stop_on: Iterable[FailureKind | StopReason | str] = STOP_ON,
        gone: Types = (),
        on_unit: Callable[[UnitRecord], Any] | None = None,
        sleep: Sleep | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        on_retry: Callable[[AttemptRecord], Any] | None = None,
    ) -> None:
        given = {"sleep": sleep, "clock": clock, "rng": rng, "on_retry": on_retry}
        bound = bind(policy, {name: hook for name, hook in given.items() if hook is not None})
        self._call_limit = seconds("call_limit", call_limit)
        self._not_after = _not_after(runtime_limit, self._call_limit, bound._now)
        self._most = None if max_requests_per_unit is None else count("max_requests_per_unit", max_requests_per_unit)
        hooks = bound.hooks()
        self._validate = hooks["validate"]
        self._sleep = hooks["sleep"]
        types = read_types(gone, "gone") or ()
        plain = bound.policy.replace(validation_tries=1, retry_if=_gate(bound.policy, types))
        self._terms = Terms(
            plain,
            hooks,
            bound.policy.validation_tries or FORMAT_TRIES,
            _members(stop_on),
            types,
            callback("on_unit", on_unit),
        )

    def run(
        self,
        *,
        call: Callable[[], Any],
        save: Callable[[Any], Any],
        validate: Callable[[Any], Any] | None = None,
        alive: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> UnitResult:
        """Do one unit: call, validate, save.

        Args:
            call: asks the model, by whatever means; run again for a retry. What it gives tells the tokens, so let it
                give the whole answer and ``validate`` take out what is wanted.
            save: gets the validated answer; what it gives is ``result.saved``.
            validate: judges an answer or replaces it, as for ``Policy.bind``. Without one, an answer with nothing in
                it - ``None``, text that is empty or blank, an empty container - is in the wrong form.
            alive: asked just before saving whether what the answer is for still exists; anything false says no.
            name: for ``on_unit``.

        Returns:
            A ``UnitResult``, whatever happened; look at its ``outcome``.

        Raises:
            BaseException: a wish to stop, such as ``KeyboardInterrupt``, or an exception named by ``gone``; both are
                found in the whole chain of what was raised, and raised as themselves. ``on_unit`` is told before.
            ConfigError: what must be awaited was given; ``call`` may give that away only when it is run.
        """
        return drive(self._work(call, save, validate, alive, name, awaits=False).steps())

    async def arun(
        self,
        *,
        call: Callable[[], Awaitable[Any]],
        save: Callable[[Any], Any],
        validate: Callable[[Any], Any] | None = None,
        alive: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> UnitResult:
        """As ``run``, under asyncio: ``call`` is a coroutine function, the others may be.

        Raises:
            ConfigError: ``call`` gave nothing that can be awaited.
        """
        running_loop()  # refuses trio
        return await adrive(self._work(call, save, validate, alive, name, awaits=True).steps())

    def stop(self, why: str = "stop() was called") -> None:
        """Stop the group: no unit makes a request any more, and answers that come are discarded.

        Args:
            why: a text for ``stop_cause``, and for the cause of each unit that ends by it; the first one stays.

        Raises:
            ConfigError: it is no text, or an empty one.
        """
        if not isinstance(why, str) or not why.strip():
            raise ConfigError("why", repr(why), "a text that says why the group is stopped")
        self._terms.flag.put_up(str(why))

    @property
    def stopped(self) -> bool:
        """Whether it was stopped, by a unit or by ``stop``."""
        return self._terms.flag.why is not None

    @property
    def stop_cause(self) -> str | None:
        """Why it was stopped; ``None`` as long as it was not."""
        return self._terms.flag.why

    def remaining(self) -> float:
        """Seconds in which a request may still begin; 0.0 once it was stopped."""
        return 0.0 if self.stopped else self._not_after.remaining()

    def _work(self, call: Any, save: Any, validate: Any, alive: Any, name: str | None, *, awaits: bool) -> Work:
        given = {"call": call, "save": save, "alive": alive}
        given["validate"] = self._validate if validate is None else validate
        for field, fn in given.items():
            if not callable(fn) and (fn is not None or field in ("call", "save")):
                raise ConfigError(field, repr(fn), "a callable")
            if not awaits and awaited(fn):
                raise ConfigError(field, name_of(fn), PLAIN)
        if not awaits and self._sleep is not None:
            check_sleep(self._sleep, may_be_awaited=False)
        unit = Unit(self._terms.flag, self._not_after, self._call_limit, self._most)
        return Work(self._terms, unit, name, awaits=awaits, **given)

    def __repr__(self) -> str:
        state = f"stopped: {self.stop_cause}" if self.stopped else f"for {self.remaining():.3f} s more"
        return f"<UnitGroup {state}>"


def _not_after(runtime_limit: Seconds | Deadline, call_limit: float, now: Callable[[], float] | None) -> Deadline:
    """When requests may no longer begin."""
    if isinstance(runtime_limit, Deadline):
        return Deadline._in(runtime_limit.remaining() - call_limit, runtime_limit.clock)
    limit = seconds("runtime_limit", runtime_limit)
    if call_limit >= limit:
        raise ConfigError("call_limit", f"{call_limit:g} s", f"less than the runtime_limit of {limit:g} s")
    return Deadline._in(limit - call_limit, read_clock(now))


def _members(stop_on: Iterable[FailureKind | StopReason | str]) -> frozenset[str]:
    known = {member.value for member in (*FailureKind, *StopReason)}
    try:
        given = {stop_on} if isinstance(stop_on, str) else set(stop_on)
    except TypeError:
        given = {stop_on}  # type: ignore[arg-type]  # refused in a moment
    for one in given:
        if one not in known:
            raise ConfigError("stop_on", repr(one), f"members of FailureKind or StopReason: {', '.join(sorted(known))}")
    return frozenset(given)


def _gate(policy: Policy, gone: tuple[type[BaseException], ...]) -> Any:
    """The policy's own ``retry_if``, after what is gone ended the call."""
    if not gone:
        return policy.retry_if

    def retry_if(failure: Failure, error: BaseException) -> Any:
        if gone_behind(error, gone) is not None:
            return False
        return None if policy.retry_if is None else policy.retry_if(failure, error)

    return retry_if
