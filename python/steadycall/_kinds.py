"""The vocabulary of outcomes: what kind of failure it was, and why a call stopped."""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """What kind of failure an attempt was; decides how it is retried."""

    CALL = "call"
    """The call itself went wrong: transport, 5xx, overload. Retried with a wait that grows."""
    RATE_LIMITED = "rate_limited"
    """The provider said we are too fast. Retried after the wait it names."""
    PERMANENT = "permanent"
    """No retry can fix it: bad request, wrong key, spent quota. Never retried."""
    VALIDATION = "validation"
    """An answer came and was not good enough. Retried at once."""


class StopReason(StrEnum):
    """Why a call ended without success."""

    NOT_RETRYABLE = "not_retryable"
    """No retry can fix the failure, or the caller switched its retry off."""
    TRIES = "tries"
    """Every allowed attempt was made."""
    HINT_TOO_LONG = "hint_too_long"
    """The server asked for a longer wait than ``max_wait``."""
    REQUEST_BUDGET = "request_budget"
    """The requests this call may cost, or its scope allows, are used up."""
    VALIDATION = "validation"
    """Every allowed answer failed its validation."""
    DEADLINE = "deadline"
    """The deadline leaves no room for another attempt, or cut the last one."""
    MIN_ATTEMPT = "min_attempt"
    """Less than ``min_attempt`` would be left of the deadline."""
    BREAKER_OPEN = "breaker_open"
    """The circuit breaker lets nothing through, and will not before the wait is over."""
    QUEUE_FULL = "queue_full"
    """As many calls wait as may."""
    RETRY_BUDGET = "retry_budget"
    """The retries of the whole client add as much load as they may."""
    STREAM_STARTED = "stream_started"
    """The answer had begun, and a replay would show its text twice."""
