"""``Policy``: how failures are retried, as one value; the only place that states its defaults."""

from __future__ import annotations

from types import MappingProxyType

from ._errors import BudgetError, ConfigError
from ._fields import BASE, CAP, backoff_from, by_kind, plain_seconds, read_backoff, read_statuses, read_types, shown
from ._native import Backoff, CheckedPolicy, callback, count, seconds
from ._operation import BoundPolicy
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any, ParamSpec, TypeVar, Unpack

    from ._fields import Fields, RetryIf, Types
    from ._hooks import Rng, Sleep
    from ._records import AttemptRecord, CallRecord
    from ._time import Clock, Seconds

    P = ParamSpec("P")
    T = TypeVar("T")


@frozen
class WorstCase:
    """What a policy may cost."""

    seconds: float | None
    """Seconds; ``None`` when the policy has neither an attempt timeout nor a deadline, so that nothing bounds them."""
    requests: int
    """Attempts, each a request or more where a layer below retries too."""
    longest_wait: str | None
    """What the longest waits are for: ``"hint"``, or the kind of failure whose backoff it is; ``None`` without any."""


class Policy:
    """How failures are retried: a value, checked when it is made, that any number of calls and threads may share.

    Args:
        tries: attempts in all, the first included; at least 1.
        base: ceiling of the first random wait, in seconds; it doubles from wait to wait.
        cap: ceiling of every such wait, in seconds.
        max_wait: longest wait in seconds that a server may ask for; a longer one ends the call now.
        deadline: seconds for everything, waits included; ``None`` is not limited.
        attempt_timeout: seconds one attempt may take; ``None`` is not limited.
        min_attempt: with less than these seconds left of the deadline no attempt is started.
        backoff: one ``Backoff`` for calls and rate limits, or a mapping from ``FailureKind`` to them; kinds that it
            does not name wait by ``base`` and ``cap``, and failed validation not at all.
        validation_tries: how many answers may fail their validation, each after ``tries`` of its own;
            ``None`` lets them share ``tries``.
        max_requests: most requests one call may cost, those of layers below included; ``None`` is not limited.
        hint_jitter: largest share of a hint, from 0 to 1, that is added to it by chance.
        retry_status: the HTTP statuses to retry, in place of the built-in table; body rules still apply.
        retry_transport: whether faults of the transport are retried.
        retry_maybe_processed: whether a request that may have reached the model is sent again.
        retry_exhausted: whether an error that a steadycall layer below gave up on is tried again here.
        retry_on: the exception types that may be retried; ``None`` is those of HTTP, SDKs, databases, the operating
            system and time limits, and answers in the wrong form. Never a programming error, unless it is named.
        retry_if: asked with the ``Failure`` and the exception: ``False`` ends the call, ``True`` or ``None`` leaves
            it as judged, a ``Failure`` takes its place.

    Raises:
        ConfigError: a value that makes no sense; it names the field, the value and what is allowed.
    """

    tries: int
    base: Seconds
    cap: Seconds
    max_wait: Seconds
    deadline: Seconds | None
    attempt_timeout: Seconds | None
    min_attempt: Seconds
    backoff: Backoff | Mapping[str, Backoff] | None
    validation_tries: int | None
    max_requests: int | None
    hint_jitter: float
    retry_status: frozenset[int] | None
    retry_transport: bool
    retry_maybe_processed: bool
    retry_exhausted: bool
    retry_on: tuple[type[BaseException], ...] | None
    retry_if: RetryIf | None
    _checked: CheckedPolicy

    def __init__(
        self,
        *,
        tries: int = 5,
        base: Seconds = BASE,
        cap: Seconds = CAP,
        max_wait: Seconds = 60.0,
        deadline: Seconds | None = None,
        attempt_timeout: Seconds | None = None,
        min_attempt: Seconds = 0.0,
        backoff: Backoff | Mapping[str, Backoff] | None = None,
        validation_tries: int | None = None,
        max_requests: int | None = None,
        hint_jitter: float = 0.0,
        retry_status: Iterable[int] | None = None,
        retry_transport: bool = True,
        retry_maybe_processed: bool = True,
        retry_exhausted: bool = False,
        retry_on: Types | None = None,
        retry_if: RetryIf | None = None,
    ) -> None:
        given = {name: plain_seconds(value) for name, value in locals().items() if name in _FIELDS}
        given["backoff"] = read_backoff(backoff, base, cap)
        given["retry_on"] = read_types(retry_on)
        if retry_status is not None:
            given["retry_status"] = read_statuses(retry_status)
        callback("retry_if", retry_if)
        if not isinstance(retry_exhausted, bool):
            raise ConfigError("retry_exhausted", repr(retry_exhausted), "True or False")
        self.__dict__.update(given)
        self.__dict__["_checked"] = CheckedPolicy(
            *(tries, base, cap, max_wait, deadline, attempt_timeout, min_attempt, by_kind(given["backoff"])),
            *(validation_tries, max_requests, hint_jitter),
            *(given["retry_status"], retry_transport, retry_maybe_processed),
        )

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Policy:
        """A policy from a settings file: the fields by name, with waits as numbers.

        ``backoff`` may be a mapping such as ``{"fixed": 2}`` or ``{"exponential": [0.5, 1.0]}``, or one from kinds
        to such mappings; ``"none"`` is no wait.

        Raises:
            ConfigError: an unknown field, or a value that makes no sense.
        """
        if not hasattr(settings, "items"):
            raise ConfigError("settings", repr(settings), "a mapping from fields of Policy to values")
        values = dict(settings)
        unknown = sorted(str(name) for name in values if name not in _FIELDS)
        if unknown:
            raise ConfigError("settings", f"the unknown field {unknown[0]!r}", f"fields among {', '.join(_FIELDS)}")
        if values.get("backoff") is not None:
            values["backoff"] = backoff_from(values["backoff"])
        return cls(**values)

    def replace(self, **changes: Unpack[Fields]) -> Policy:
        """A copy with some fields changed.

        Raises:
            ConfigError: a value that makes no sense.
        """
        return type(self)(**{**self._fields(), **changes})

    def bind(
        self,
        *,
        validate: Callable[[Any], Any] | None = None,
        sleep: Sleep | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        on_retry: Callable[[AttemptRecord], Any] | None = None,
        on_end: Callable[[CallRecord], Any] | None = None,
    ) -> BoundPolicy:
        """This policy with what a call lends it; the result has ``call`` and ``acall``, and may be used for ``retry``.

        Args:
            validate: gets each answer. ``None`` and ``True`` accept it; ``False``, a ``ValueError`` or pydantic's
                error make it a failed validation; ``Reject(reason)``, raised or returned, ends the call; any other
                value takes the answer's place. For ``acall`` it may be a coroutine function.
            sleep: called once per retry with the wait in seconds; ``None`` is ``time.sleep`` or ``asyncio.sleep``.
            clock: an object with ``now()`` or a callable, in seconds; ``None`` is the monotonic clock.
            rng: a seed or a ``random.Random`` for the waits.
            on_retry: told each failed attempt that is followed by another, as an ``AttemptRecord``.
            on_end: told each call that ends in an answer or a failure once, as a ``CallRecord``; a cancelled one is
                neither.

        Raises:
            ConfigError: a value that makes no sense.
        """
        return BoundPolicy(self, validate, sleep, clock, rng, on_retry, on_end)

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn(*args, **kwargs)`` until it succeeds or this policy gives up.

        Raises:
            BaseException: what the last run raised, as itself, with a note that says attempts and why.
            DeadlineExceeded: the deadline is why no further attempt was made.
            RequestBudgetSpent: the scope around it had no request left for a first attempt.
        """
        return self._bound.call(fn, *args, **kwargs)

    async def acall(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``call``, for a coroutine function; an attempt that takes longer than ``attempt_timeout`` is cancelled."""
        return await self._bound.acall(fn, *args, **kwargs)

    @property
    def _bound(self) -> BoundPolicy:
        bound: BoundPolicy | None = self.__dict__.get("_unhooked")
        if bound is None:
            bound = self.__dict__["_unhooked"] = BoundPolicy(self)
        return bound

    def worst_case(self, chains: int = 1, *, hints: bool = True) -> WorstCase:
        """What ``chains`` calls one after the other may cost at the worst.

        Each wait counts as the larger of its own backoff's top and ``max_wait``, because a server may ask for that
        much; ``hints=False`` leaves hints out.

        Raises:
            ConfigError: ``chains`` is not at least 1.
        """
        worst, requests, longest = self._checked.worst_case(_chains(chains), hints)
        return WorstCase(seconds=worst, requests=requests, longest_wait=longest)

    def require_within(self, within: Seconds, *, chains: int = 1) -> None:
        """Refuse, at start-up, a policy whose worst case does not fit into ``within`` seconds; hints always count.

        Raises:
            BudgetError: it does not fit, or nothing bounds it; the numbers are named.
            ConfigError: ``within`` is not a time above 0, or ``chains`` not at least 1.
        """
        limit = seconds("within", within)
        worst = self.worst_case(chains).seconds
        calls = "one call" if chains == 1 else f"{chains} calls one after the other"
        if worst is None:
            allowed = f"bounded by attempt_timeout or deadline to fit into {limit:g} s"
            raise BudgetError("policy", "one without a worst case, because neither is set", allowed)
        if worst > limit:
            most = self._checked.max_attempt_timeout(limit, chains)
            advice = f"an attempt_timeout of at most {most:.2f} s" if most > 0 else "fewer tries or a lower max_wait"
            got = f"one that may take {worst:g} s for {calls} ({advice} would fit)"
            raise BudgetError("policy", got, f"done within {limit:g} s at the worst")

    def max_attempt_timeout(self, within: Seconds, *, chains: int = 1) -> float:
        """The longest ``attempt_timeout``, in seconds, with which ``chains`` calls fit into ``within`` seconds.

        Raises:
            BudgetError: the waits alone do not fit.
            ConfigError: ``within`` is not a time above 0, or ``chains`` not at least 1.
        """
        limit = seconds("within", within)
        most = self._checked.max_attempt_timeout(limit, _chains(chains))
        if most <= 0:
            raise BudgetError("within", f"{limit:g} s", "longer than the waits between the attempts alone")
        return most

    def _fields(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _FIELDS}

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"Policy is frozen: cannot set {name!r}; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Policy is frozen: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        values = self._fields()
        if isinstance(values["backoff"], MappingProxyType):
            values["backoff"] = frozenset(values["backoff"].items())
        return hash(tuple(values.values()))

    def __repr__(self) -> str:
        changed = {name: value for name, value in self._fields().items() if value != _FIELDS[name]}
        return f"Policy({', '.join(f'{name}={shown(value)}' for name, value in changed.items())})"

    def __reduce__(self) -> Any:
        values = self._fields()
        if isinstance(values["backoff"], MappingProxyType):
            values["backoff"] = dict(values["backoff"])
        return _rebuild, (values,)


def _rebuild(fields: dict[str, Any]) -> Policy:
    return Policy(**fields)


# The fields in order, with their defaults.
_FIELDS: dict[str, Any] = dict(Policy.__init__.__kwdefaults__ or {})


@frozen
class Layers:
    """Retrying layers one inside the other; made by ``layers``."""

    tries: dict[str, int]
    """The tries of each layer."""
    max_requests: int
    """Requests they may make together: the product of their tries."""

    def __str__(self) -> str:
        return f"{' x '.join(f'{tries} {name}' for name, tries in self.tries.items())} = {self.max_requests} requests"


def layers(**tries: int) -> Layers:
    """What nested layers cost together: ``layers(transport=3, validation=2, queue=2).max_requests`` is 12.

    Raises:
        ConfigError: a layer's tries are not at least 1.
    """
    product = 1
    for name, given in tries.items():
        product *= count(name, given)
    return Layers(tries=dict(tries), max_requests=product)


def _chains(chains: int) -> int:
    return count("chains", chains)
