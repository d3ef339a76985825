"""steadycall: calls to LLM HTTP APIs that end well."""

from ._attempts import attempts
from ._call import acall, call
from ._classify import classify
from ._errors import (
    AttemptTimeout,
    BudgetError,
    CallError,
    ConfigError,
    ConnectError,
    DeadlineExceeded,
    Error,
    HTTPStatusError,
    ProxyError,
    ReadError,
    Refused,
    Reject,
    RequestBudgetSpent,
    ResponseError,
    TLSError,
    TransportError,
)
from ._exceptions import classify_exception
from ._kinds import FailureKind, StopReason
from ._native import Backoff, __version__
from ._policy import Policy, layers
from ._records import AttemptRecord, CallRecord, Failure, Hint
from ._retry import retry
from ._scope import current_attempt, scope
from ._time import Deadline, Timeout

__all__ = [
    "AttemptRecord",
    "AttemptTimeout",
    "Backoff",
    "BudgetError",
    "CallError",
    "CallRecord",
    "ConfigError",
    "ConnectError",
    "Deadline",
    "DeadlineExceeded",
    "Error",
    "Failure",
    "FailureKind",
    "HTTPStatusError",
    "Hint",
    "Policy",
    "ProxyError",
    "ReadError",
    "Refused",
    "Reject",
    "RequestBudgetSpent",
    "ResponseError",
    "StopReason",
    "TLSError",
    "Timeout",
    "TransportError",
    "__version__",
    "acall",
    "attempts",
    "call",
    "classify",
    "classify_exception",
    "current_attempt",
    "layers",
    "retry",
    "scope",
]
