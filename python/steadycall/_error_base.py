"""What all errors of steadycall have in common; the tree is drawn in ``_errors``."""

from __future__ import annotations

import time

from ._kinds import FailureKind, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from ._records import AttemptRecord, Failure


class Error(Exception):
    """Everything steadycall raises; by itself only for a fault of our own."""


class ConfigError(Error, ValueError):
    """A value that makes no sense. Raised before anything is sent, unless a callable of the caller's gave it later.

    ``field`` is the parameter's name, ``value`` what it was (hidden where it may be a secret), ``allowed`` what it
    must be.
    """

    def __init__(self, field: str, value: str, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.field} must be {self.allowed}, got {self.value}"


class BudgetError(ConfigError):
    """A policy whose worst case does not fit into the time it was given."""


class Closed(Error, RuntimeError):
    """A client, or a stream of it, was used after it was closed."""


class CallError(Error):
    """A call that ended without an answer: what happened, how far it got, and what to do.

    Everything is in fields; the text is made last and never holds a key, a query string, a prompt or a body.
    """

    failure: Failure | None
    """The last failure, judged: whether a retry may help, the hint and the reason."""
    kind: FailureKind | None
    """What kind of failure the last one was."""
    stop_reason: StopReason | None
    """Why no further attempt was made."""
    why: str
    """What happened and why it stopped, in one sentence."""
    provider_code: str | None
    """The provider's own code for the error."""
    attempts: tuple[AttemptRecord, ...]
    """Every attempt in order."""
    elapsed: float
    """Seconds from the start of the call to its end."""
    retry_after: float | None
    """Seconds the server asked to wait, counted from ``raised_at``."""
    request_id: str | None
    """The server's id for the last request."""
    sent: str
    """``"no"``, or ``"maybe"``: a request may have reached the model, and been billed."""
    raised_at: float
    """Seconds since the epoch when it was raised."""

    def __init__(
        self,
        *,
        why: str,
        failure: Failure | None = None,
        kind: FailureKind | None = None,
        stop_reason: StopReason | None = None,
        provider_code: str | None = None,
        attempts: tuple[AttemptRecord, ...] = (),
        elapsed: float = 0.0,
        retry_after: float | None = None,
        request_id: str | None = None,
        sent: str = "no",
        raised_at: float | None = None,
    ) -> None:
        self._init_parent(why)
        self.why = why
        self.failure = failure
        self.kind = kind
        self.stop_reason = stop_reason
        self.provider_code = provider_code
        self.attempts = attempts
        self.elapsed = elapsed
        self.retry_after = retry_after
        self.request_id = request_id
        self.sent = sent
        self.raised_at = time.time() if raised_at is None else raised_at

    def _init_parent(self, why: str) -> None:
        Exception.__init__(self, why)

    @property
    def retry_at(self) -> datetime | None:
        """When the server expects us back, as an aware UTC datetime; ``None`` without a hint that a date can hold."""
        from datetime import UTC, datetime, timedelta  # not needed by any call, so not paid for at import

        if self.retry_after is None:
            return None
        try:
            return datetime.fromtimestamp(self.raised_at, UTC) + timedelta(seconds=self.retry_after)
        except (OverflowError, ValueError):
            return None

    @property
    def safe_message(self) -> str:
        """One sentence fit for an end user: nothing internal is in it."""
        if self.kind == FailureKind.RATE_LIMITED or self.retry_after is not None:
            return "The service is busy right now. Please try again later."
        if self.kind in (FailureKind.PERMANENT, FailureKind.VALIDATION):
            return "The request could not be completed."
        return "The service could not be reached in time. Please try again later."

    def __str__(self) -> str:
        return self.why

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.why}>"

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._fields(), self._extra())

    def _fields(self) -> dict[str, Any]:
        names = (
            "why",
            "failure",
            "kind",
            "stop_reason",
            "provider_code",
            "attempts",
            "elapsed",
            "retry_after",
            "request_id",
        )
        return {name: getattr(self, name) for name in (*names, "sent", "raised_at")}

    def _extra(self) -> dict[str, Any]:
        """What a user or ``add_note`` put on it, and the chained errors."""
        ours = self._fields().keys() | self._own_state()
        kept = {name: value for name, value in self.__dict__.items() if name not in ours}
        return {**kept, "__cause__": self.__cause__, "__suppress_context__": self.__suppress_context__}

    def _own_state(self) -> set[str]:
        return set()


def _rebuild(cls: type[CallError], fields: dict[str, Any], extra: dict[str, Any]) -> CallError:
    error = cls(**fields)
    for name, value in extra.items():
        setattr(error, name, value)
    return error
