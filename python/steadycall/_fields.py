"""The fields of a policy as callers write them, read: backoffs, exception types, statuses, lines of a settings file."""

from __future__ import annotations

from types import MappingProxyType

from ._errors import ConfigError
from ._kinds import FailureKind
from ._native import Backoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypedDict

    from ._records import Failure
    from ._time import Seconds

    Types = type[BaseException] | tuple[type[BaseException], ...]
    RetryIf = Callable[[Failure, BaseException], bool | Failure | None]

    class Fields(TypedDict, total=False):
        """The fields of a policy as keywords."""

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
        retry_status: Iterable[int] | None
        retry_transport: bool
        retry_maybe_processed: bool
        retry_exhausted: bool
        retry_on: Types | None
        retry_if: RetryIf | None


BASE, CAP = 1.0, 30.0
"""The defaults of ``base`` and ``cap``; a backoff and other values than these exclude each other."""

_WAITING = (FailureKind.CALL, FailureKind.RATE_LIMITED, FailureKind.VALIDATION)


def read_backoff(backoff: Any, base: Any, cap: Any) -> Any:
    if backoff is None:
        return None
    unused = isinstance(backoff, Backoff)
    if not unused:
        if not hasattr(backoff, "items"):
            raise ConfigError("backoff", repr(backoff), "a Backoff, a mapping from FailureKind to Backoff, or None")
        named = {}
        for kind, one in backoff.items():
            if kind not in _WAITING:
                allowed = f"a mapping from {', '.join(_WAITING)} (permanent failures are never retried)"
                raise ConfigError("backoff", f"one for {kind!r}", allowed)
            if not isinstance(one, Backoff):
                raise ConfigError(f"backoff[{str(kind)!r}]", repr(one), "a Backoff")
            named[FailureKind(kind)] = one
        backoff = MappingProxyType(named)
        unused = FailureKind.CALL in backoff and FailureKind.RATE_LIMITED in backoff
    if unused and (base, cap) != (BASE, CAP):
        raise ConfigError("backoff", repr(backoff), "left out when base or cap is given, which it would not use")
    return backoff


def by_kind(backoff: Any) -> list[Backoff | None]:
    if isinstance(backoff, Backoff):
        return [backoff, backoff, None]
    return [(backoff or {}).get(kind) for kind in _WAITING]


def read_types(types: Any, field: str = "retry_on") -> tuple[type[BaseException], ...] | None:
    if types is None:
        return None
    all_types = types if isinstance(types, (tuple, list, set, frozenset)) else (types,)
    for one in all_types:
        if not isinstance(one, type) or not issubclass(one, (Exception, BaseExceptionGroup)):
            allowed = "an exception type (none that asks to stop, such as KeyboardInterrupt), a tuple of them, or None"
            raise ConfigError(field, repr(one), allowed)
    return tuple(all_types)


def read_statuses(statuses: Any) -> Any:
    try:
        return frozenset(statuses)
    except TypeError:
        return statuses  # the core's check names what is wrong with it


def backoff_from(given: Any) -> Any:
    if isinstance(given, Backoff):
        return given
    if given == "none":
        return Backoff.none()
    if not hasattr(given, "items"):
        raise ConfigError("backoff", repr(given), '"none", {"fixed": 2} or the like, or a mapping from kinds to such')
    if len(given) == 1 and (made := next(iter(given))) in ("fixed", "exponential", "full_jitter"):
        values, make = given[made], getattr(Backoff, made)
        try:
            if hasattr(values, "items"):
                return make(**values)
            return make(*(values if isinstance(values, (list, tuple)) else (values,)))
        except TypeError as error:
            allowed = "{fixed: seconds}, {full_jitter: [base, cap]} or {exponential: {base, cap, jitter}}"
            raise ConfigError(f"backoff.{made}", repr(values), allowed) from error
    return {kind: backoff_from(one) for kind, one in given.items()}


def plain_seconds(value: Any) -> Any:
    """A ``timedelta`` as the seconds it stands for, so that equal policies are equal."""
    return value.total_seconds() if type(value).__name__ == "timedelta" else value


def shown(value: Any) -> str:
    if isinstance(value, MappingProxyType):
        return "{" + ", ".join(f"{str(kind)!r}: {one!r}" for kind, one in value.items()) + "}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(repr, sorted(value))) + "}"
    if isinstance(value, tuple):
        names = ", ".join(one.__name__ for one in value)
        return f"({names},)" if len(value) == 1 else f"({names})"
    return repr(value)
