"""What the errors of Python and its standard library mean, and of the libraries that check answers and breakers."""

from __future__ import annotations

import errno

from ._chain import attribute
from ._finding import BREAKER, CHANCE, MAYBE, NO, PHASE, PROOF, SYSTEM, Finding, changed, fault, invalid, plain, vague
from ._native import failure
from ._records import Hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._finding import Table

# Nothing a wait can mend. Any other errno, and none, may be different next time.
REFUSED = {
    getattr(errno, name)
    for name in (
        *(
            "ENOENT",
            "EACCES",
            "EPERM",
            "EEXIST",
            "EISDIR",
            "ENOTDIR",
            "ENOTEMPTY",
            "EROFS",
            "ENOSPC",
            "EDQUOT",
            "EFBIG",
        ),
        *(
            "ENAMETOOLONG",
            "ELOOP",
            "EXDEV",
            "EINVAL",
            "EBADF",
            "ENODEV",
            "ENXIO",
            "ENOTTY",
            "ESPIPE",
            "ENOEXEC",
            "ENOSYS",
        ),
        *("ESRCH", "ECHILD", "EAFNOSUPPORT", "EPROTONOSUPPORT", "EADDRINUSE"),
    )
    if hasattr(errno, name)
}
UNREACHABLE = {
    getattr(errno, name)
    for name in ("ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN", "EADDRNOTAVAIL")
    if hasattr(errno, name)
}

programming = plain("programming_error", sure=CHANCE, known=False)
_unreachable = fault("connect_failed", NO, SYSTEM)
system_refused = plain("system_refused", sure=SYSTEM)
_failed = plain("system_failed", sure=SYSTEM)


def of_oserror(exc: Any) -> Finding | None:
    """An ``OSError`` that has no class of its own, by its ``errno``."""
    number = attribute(exc, "errno")
    if number in UNREACHABLE:
        return _unreachable(exc)
    return (system_refused if number in REFUSED else _failed)(exc)


BUILTINS: Table = {
    "ConnectionRefusedError": fault("connect_failed", NO, SYSTEM),
    "ConnectionResetError": fault("connection_lost", MAYBE, SYSTEM),
    "ConnectionAbortedError": fault("connection_lost", MAYBE, SYSTEM),
    "BrokenPipeError": fault("connection_lost", MAYBE, SYSTEM),
    "ConnectionError": vague("connection_lost"),
    "TimeoutError": fault("timed_out", MAYBE, SYSTEM),
    "FileNotFoundError": system_refused,
    "FileExistsError": system_refused,
    "IsADirectoryError": system_refused,
    "NotADirectoryError": system_refused,
    "PermissionError": system_refused,
    "ProcessLookupError": system_refused,
    "ChildProcessError": system_refused,
    "OSError": of_oserror,
    "TypeError": programming,
    "NameError": programming,
    "AttributeError": programming,
    "ImportError": programming,
    "SyntaxError": programming,
    "NotImplementedError": programming,
    "RecursionError": programming,
    "StopIteration": programming,
    "StopAsyncIteration": programming,
}

SSL: Table = {
    "SSLCertVerificationError": fault("certificate_rejected", NO, PROOF),
    "SSLEOFError": fault("connection_lost", MAYBE, SYSTEM),
    "SSLZeroReturnError": fault("connection_lost", MAYBE, SYSTEM),
    "SSLError": fault("tls_failed", MAYBE, SYSTEM),
}

SOCKET: Table = {"gaierror": _unreachable, "herror": _unreachable}


def of_breaker(exc: Any) -> Finding:
    """An open circuit breaker; ours says when it lets a call through again."""
    wait = attribute(exc, "retry_after")
    found = failure("circuit_open", NO)
    if isinstance(wait, (int, float)) and wait > 0:
        found = changed(found, hint=Hint(seconds=float(wait), source="circuit breaker"))
    return Finding(BREAKER, PHASE, found)


STANDARD: dict[str, Table] = {
    "builtins": BUILTINS,
    "ssl": SSL,
    "socket": SOCKET,
    "json": {"JSONDecodeError": invalid()},
    "pydantic": {"ValidationError": invalid(), "PydanticUserError": programming},
    "pydantic_core": {"ValidationError": invalid()},
    "jsonschema": {"ValidationError": invalid(), "SchemaError": programming},
    "msgspec": {"DecodeError": invalid(), "ValidationError": invalid()},
    "pybreaker": {"CircuitBreakerError": of_breaker},
    "circuitbreaker": {"CircuitBreakerError": of_breaker},
    "aiobreaker": {"CircuitBreakerError": of_breaker},
}
