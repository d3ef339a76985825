"""steadycall: calls to LLM HTTP APIs that end well."""

from ._call import acall, call
from ._classify import classify
from ._errors import (
    AttemptTimeout,
    BudgetError,
    CallError,
    CircuitOpen,
    Closed,
    ConfigError,
    ConnectError,
    DeadlineExceeded,
    Error,
    HTTPStatusError,
    ProxyError,
    QueueFull,
    ReadError,
    Refused,
    Reject,
    RequestBudgetSpent,
    ResponseError,
    StreamInterrupted,
    TLSError,
    TransportError,
)
from ._kinds import FailureKind, StopReason
from ._native import Backoff, StreamEvent, __version__
from ._records import AttemptRecord, CallRecord, Event, Failure, Hint
from ._scope import current_attempt, scope
from ._time import Deadline, Timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._attempts import attempts
    from ._bulk import BulkRun, abulk, bulk
    from ._bulk_records import BulkPlan, BulkProgress, BulkResult, BulkSummary
    from ._client import AsyncClient, Client
    from ._exceptions import classify_exception
    from ._limits import CircuitBreaker, ConcurrencyLimit, RateLimit, RetryBudget, TokenBudget
    from ._policy import Policy, layers
    from ._reply import Reply
    from ._retry import retry
    from ._route import Route
    from ._sdk import wrap
    from ._stream import AsyncStream, Stream, StreamTimeout
    from ._transport import AsyncTransport, RetryStackingWarning, Transport
    from ._units import UnitGroup
    from ._units_record import UnitOutcome, UnitRecord, UnitResult

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "AsyncTransport",
    "AttemptRecord",
    "AttemptTimeout",
    "Backoff",
    "BudgetError",
    "BulkPlan",
    "BulkProgress",
    "BulkResult",
    "BulkRun",
    "BulkSummary",
    "CallError",
    "CallRecord",
    "CircuitBreaker",
    "CircuitOpen",
    "Client",
    "Closed",
    "ConcurrencyLimit",
    "ConfigError",
    "ConnectError",
    "Deadline",
    "DeadlineExceeded",
    "Error",
    "Event",
    "Failure",
    "FailureKind",
    "HTTPStatusError",
    "Hint",
    "Policy",
    "ProxyError",
    "QueueFull",
    "RateLimit",
    "ReadError",
    "Refused",
    "Reject",
    "Reply",
    "RequestBudgetSpent",
    "ResponseError",
    "RetryBudget",
    "RetryStackingWarning",
    "Route",
    "StopReason",
    "Stream",
    "StreamEvent",
    "StreamInterrupted",
    "StreamTimeout",
    "TLSError",
    "Timeout",
    "TokenBudget",
    "Transport",
    "TransportError",
    "UnitGroup",
    "UnitOutcome",
    "UnitRecord",
    "UnitResult",
    "__version__",
    "abulk",
    "acall",
    "attempts",
    "bulk",
    "call",
    "classify",
    "classify_exception",
    "current_attempt",
    "layers",
    "retry",
    "scope",
    "wrap",
]

# Loaded when first named, and never during a call: who only wants `call` does not pay for tables of exceptions.
_LATER = {
    "AsyncClient": "_client",
    "AsyncStream": "_stream",
    "AsyncTransport": "_transport",
    "BulkPlan": "_bulk_records",
    "BulkProgress": "_bulk_records",
    "BulkResult": "_bulk_records",
    "BulkRun": "_bulk",
    "BulkSummary": "_bulk_records",
    "CircuitBreaker": "_limits",
    "Client": "_client",
    "ConcurrencyLimit": "_limits",
    "Policy": "_policy",
    "RateLimit": "_limits",
    "Reply": "_reply",
    "RetryBudget": "_limits",
    "RetryStackingWarning": "_transport",
    "Route": "_route",
    "Stream": "_stream",
    "StreamTimeout": "_stream",
    "TokenBudget": "_limits",
    "Transport": "_transport",
    "UnitGroup": "_units",
    "UnitOutcome": "_units_record",
    "UnitRecord": "_units_record",
    "UnitResult": "_units_record",
    "abulk": "_bulk",
    "attempts": "_attempts",
    "bulk": "_bulk",
    "classify_exception": "_exceptions",
    "layers": "_policy",
    "retry": "_retry",
    "wrap": "_sdk",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(__import__(f"{__name__}.{module}", fromlist=[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
