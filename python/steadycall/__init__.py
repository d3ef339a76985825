"""steadycall: calls to LLM HTTP APIs that end well."""

from ._call import acall, call
from ._classify import classify
from ._errors import (
    AttemptTimeout,
    CallError,
    ConfigError,
    ConnectError,
    DeadlineExceeded,
    Error,
    HTTPStatusError,
    ProxyError,
    ReadError,
    ResponseError,
    TLSError,
    TransportError,
)
from ._exceptions import classify_exception
from ._kinds import FailureKind, StopReason
from ._native import __version__
from ._records import AttemptRecord, CallRecord, Failure, Hint
from ._time import Deadline, Timeout

__all__ = [
    "AttemptRecord",
    "AttemptTimeout",
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
    "ProxyError",
    "ReadError",
    "ResponseError",
    "StopReason",
    "TLSError",
    "Timeout",
    "TransportError",
    "__version__",
    "acall",
    "call",
    "classify",
    "classify_exception",
]
