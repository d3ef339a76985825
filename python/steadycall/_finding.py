"""What one exception of a chain tells, and which of several tells the truth.

A table of a library has a row for each of its classes: a function from the exception to a ``Finding``, or to ``None``
when this one tells nothing. The functions here make rows; the core makes every judgement.
"""

from __future__ import annotations

import time

from ._native import classify, failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._native import CheckedPolicy
    from ._records import Failure

    Told = tuple[int, list[tuple[str, str]], bytes | str, str | None, float, str]
    Row = Callable[[Any], "Finding | None"]
    Table = dict[str, Row]

# What goes before what, wherever it stands in the chain.
BREAKER, PACE, ANSWER, TRANSPORT, VALIDATION, CALL = 6, 5, 4, 3, 2, 1

# Of several of the same rank the surer one: a proof; a class that names the phase; one of the operating system; one
# that may be there by chance; one that is raised for many things.
PROOF, PHASE, SYSTEM, CHANCE, VAGUE = 4, 3, 2, 1, 0

NO, MAYBE = "no", "maybe"


class Finding:
    """One exception, judged: its rank in a chain, how sure it is, and the failure it stands for."""

    __slots__ = ("failure", "known", "rank", "sure", "told")

    def __init__(self, rank: int, sure: int, failure: Failure, known: bool = True, told: Told | None = None) -> None:
        self.rank = rank
        self.sure = sure
        self.failure = failure
        self.known = known
        """Whether it is an error of HTTP, an SDK, a database or the operating system."""
        self.told = told
        """The HTTP answer it was judged from."""

    def by(self, policy: CheckedPolicy) -> Failure:
        """The failure as a policy's own table of statuses has it."""
        judged = None if self.told is None else classify(*self.told, policy)
        return self.failure if judged is None else judged

    def weight(self, depth: int) -> tuple[int, int, int, bool, float]:
        """The heaviest finding of a chain is believed; of two at one depth, in a group, the one that asks for more."""
        hint = self.failure.hint
        return (self.rank, self.sure, depth, not self.failure.retryable, 0.0 if hint is None else hint.seconds)


# Rows


def fault(reason: str, sent: str = MAYBE, sure: int = PHASE) -> Row:
    """A request that brought no whole answer."""
    return lambda exc: Finding(TRANSPORT, sure, failure(reason, sent))


def vague(reason: str, sent: str = MAYBE) -> Row:
    """A class raised for many faults: any surer finding goes before it."""
    return fault(reason, sent, VAGUE)


def refusal(reason: str, sent: str = NO) -> Row:
    """What can never work as it stands, told by a library before or instead of sending."""
    return fault(reason, sent, PHASE)


def plain(reason: str, *, sure: int = VAGUE, known: bool = True) -> Callable[[Any], Finding]:
    """A failure that is nobody's transport: of a function, a database, a file."""
    return lambda exc: Finding(CALL, sure, failure(reason, MAYBE), known)


def invalid(*, known: bool = False) -> Row:
    """An answer in the wrong form."""
    return lambda exc: Finding(VALIDATION, VAGUE, failure("validation_failed", MAYBE), known)


# Answers


def answer(
    status: object, headers: object = None, body: object = b"", url: object = None, dialect: str = "auto"
) -> Finding | None:
    """An HTTP answer, judged as ``call`` judges it; ``None`` when the status is none."""
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return None
    said = pairs(headers)
    if is_ours(said):
        # Our transport's word to the client above it, and none of the provider's.
        said = [pair for pair in said if pair[0].lower() != "x-should-retry"]
    told = (int(status), said, raw(body), None if url is None else str(url), time.time(), dialect)
    found = classify(*told)
    if found is None:
        return Finding(VALIDATION, PHASE, failure("validation_failed", MAYBE))
    return Finding(PACE if is_pace(found) else ANSWER, VAGUE, found, told=told)


def is_ours(told: list[tuple[str, str]]) -> bool:
    """Whether an answer comes from a transport of ours that gave up on it."""
    return any(name.lower() == "x-steadycall-stop" for name, _ in told)


def changed(found: Failure, **changes: Any) -> Failure:
    """A copy with some fields changed."""
    return type(found)(**{**vars(found), **changes})


def is_pace(found: Failure) -> bool:
    """Whether it is about pace, quota or money, which goes before every other answer."""
    return found.status == 429 or found.kind == "rate_limited" or found.reason in _QUOTA


_QUOTA = {failure(name, NO).reason for name in ("quota_spent", "wait_of_days", "billing", "zero_limit")}


def pairs(headers: Any) -> list[tuple[str, str]]:
    """Foreign headers, mapping or pairs, as pairs of text; what is no text is left out."""
    try:
        items = headers.items() if hasattr(headers, "items") else headers or ()
        return [(text(name), text(value)) for name, value in items if value is not None]
    except Exception:
        return []


def text(value: object) -> str:
    """A header as text; headers are latin-1 on the wire."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def raw(body: object) -> bytes | str:
    """A body as the core takes it."""
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return body if isinstance(body, (bytes, str)) else b""
