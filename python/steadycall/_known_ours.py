"""What an error means that a layer of steadycall gave up on: its last failure, as that layer judged it.

Whether the layers around may try again is their policies' decision; here it is told only what happened.
"""

from __future__ import annotations

from ._chain import attribute
from ._finding import ANSWER, PACE, PHASE, TRANSPORT, VAGUE, VALIDATION, Finding, answer, is_pace, refusal
from ._known_builtins import of_breaker
from ._native import failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._errors import CallError
    from ._finding import Table
    from ._records import Failure


def of_ours(exc: CallError) -> Finding:
    """A ``CallError``: the failure it carries, or, of one that was made by hand, what its class says."""
    found: Failure | None = attribute(exc, "failure")
    if found is None:
        return by_class(exc)
    return Finding(rank_of(found), PHASE, found)


def rank_of(found: Failure) -> int:
    if is_pace(found):
        return PACE
    if found.status is not None:
        return ANSWER
    return VALIDATION if found.kind == "validation" else TRANSPORT


def by_class(exc: Any) -> Finding:
    name = next(cls.__name__ for cls in type(exc).__mro__ if cls.__name__ in REASONS)
    told = exc._fields()
    judged = answer(told.get("code", told.get("status")), told.get("header_pairs"), told.get("body"), told.get("url"))
    if judged is not None:
        return judged
    reason = REASONS[name]
    if name == "Refused":
        reason = REFUSED.get(exc.kind, reason)
    if name == "TLSError" and exc.kind == "permanent":
        reason = "certificate_rejected"
    if name == "AttemptTimeout":
        reason = f"{exc.phase}_timeout"
    return Finding(TRANSPORT, VAGUE if reason in ("timed_out", "function_failed") else PHASE, failure(reason, exc.sent))


REASONS = {
    "ConnectError": "connect_failed",
    "TLSError": "tls_failed",
    "ProxyError": "proxy_refused",
    "ReadError": "connection_lost",
    "AttemptTimeout": "attempt_timeout",
    "TransportError": "connection_lost",
    "DeadlineExceeded": "timed_out",
    "QueueFull": "pool_timeout",
    "RequestBudgetSpent": "function_failed",
    "Refused": "function_failed",
    "CallError": "function_failed",
}

REFUSED = {"rate_limited": "rate_limited", "permanent": "quota_spent"}
"""Of a gate of a client, by its kind."""

OURS: Table = {
    "CircuitOpen": of_breaker,
    "CallError": of_ours,
    # A value that makes no sense, a use after close, a fault of our own.
    "Error": refusal("programming_error"),
}
