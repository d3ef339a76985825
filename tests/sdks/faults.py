"""What a server does to a client, and what the error that comes of it must be judged as."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import steadycall
from steadycall.testing import Answer, FakeServer, answers


class Expected(NamedTuple):
    """What a fault must be judged as; ``hint`` in seconds, ``reason`` a piece of the sentence."""

    kind: str
    retryable: bool
    status: int | None = None
    hint: float | None = None
    sent: str | None = None
    reason: str = ""


NO_CONNECTION = Expected("call", True, sent="no", reason="No connection")
READ_TIMEOUT = Expected("call", True, sent="maybe", reason="read timeout")
LOST = Expected("call", True, sent="maybe", reason="connection broke")
CUT_SHORT = Expected("call", True, sent="maybe")

# Faults of the transport, the same for every client. A refused connection is a port that nobody listens on.
TRANSPORT: dict[str, tuple[Answer | None, Expected]] = {
    "refused": (None, NO_CONNECTION),
    "silent": (Answer(never=True), READ_TIMEOUT),
    "reset": (Answer(reset="before"), LOST),
    "hung up": (Answer(garbage=b""), LOST),
    "cut short": (answers.openai.ok("Hello." * 20).replace(truncate=40), CUT_SHORT),
}

# Answers in the words of each provider.
OPENAI: dict[str, tuple[Answer, Expected]] = {
    "bad key": (answers.openai.bad_key(), Expected("permanent", False, 401)),
    "bad request": (answers.openai.bad_request(), Expected("permanent", False, 400)),
    "rate limited": (answers.openai.rate_limited(2), Expected("rate_limited", True, 429, 2.0, "no")),
    "no money": (answers.openai.insufficient_quota(), Expected("permanent", False, 429, reason="no credit")),
    "server error": (answers.openai.server_error(), Expected("call", True, 500, sent="maybe")),
    "overloaded": (answers.openai.overloaded(), Expected("call", True, 503)),
}
ANTHROPIC: dict[str, tuple[Answer, Expected]] = {
    "bad key": (answers.anthropic.bad_key(), Expected("permanent", False, 401)),
    "no credit": (answers.anthropic.no_credit(), Expected("permanent", False, 400, reason="no credit")),
    "rate limited": (answers.anthropic.rate_limited(2), Expected("rate_limited", True, 429, 2.0)),
    "spend limit": (answers.anthropic.spend_limit(), Expected("permanent", False, 429)),
    "server error": (answers.anthropic.server_error(), Expected("call", True, 500)),
    "overloaded": (answers.anthropic.overloaded(), Expected("call", True, 529)),
}
GEMINI: dict[str, tuple[Answer, Expected]] = {
    "bad key": (answers.gemini.bad_key(), Expected("permanent", False, 400, reason="credentials")),
    "rate limited": (answers.gemini.rate_limited("2.5s"), Expected("rate_limited", True, 429, 2.5)),
    "daily quota": (answers.gemini.daily_quota(), Expected("permanent", False, 429, reason="quota")),
    "server error": (answers.gemini.server_error(), Expected("call", True, 500)),
    "overloaded": (answers.gemini.overloaded(), Expected("call", True, 503)),
}


@contextmanager
def serving(answer: Answer | None) -> Iterator[str]:
    """The URL of a server that gives this answer; of a port nobody listens on for none."""
    if answer is None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        yield address
    else:
        with FakeServer(answer) as server:
            yield server.url_for("").rstrip("/")


def raised(work: Callable[[str], object], url: str) -> Exception:
    """What the work raises, sync or async."""
    try:
        if asyncio.iscoroutinefunction(work):
            asyncio.run(work(url))
        else:
            work(url)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def check(error: Exception, expected: Expected) -> steadycall.Failure:
    failure = steadycall.classify_exception(error)
    told = f"{error!r} is judged {failure}"
    assert (failure.kind, failure.retryable) == (expected.kind, expected.retryable), told
    assert failure.status == expected.status, told
    assert expected.reason in failure.reason, told
    assert expected.sent in (None, failure.sent), told
    # A hint from the message's text may be a little above the header's.
    hint = None if failure.hint is None else failure.hint.seconds
    assert hint == expected.hint or not expected.retryable, told
    return failure
