"""The errors of steadycall, and what each one carries.

::

    Error (Exception)
      ConfigError (ValueError)                   which field, what is wrong, what is allowed
        BudgetError                              a worst case that does not fit the time it was given
      Closed (RuntimeError)                      use after close
      CallError
        HTTPStatusError (urllib.error.HTTPError) the provider's answer: .code .headers .read() .body
        TransportError (urllib.error.URLError)   no answer came, or not all of it
          ConnectError                           never sent: name look-up, refused, unreachable
          TLSError                               certificate or hand-shake
          ProxyError                             the proxy refused us
          ReadError                              the connection broke after the request was sent
          AttemptTimeout (TimeoutError)          .phase
        DeadlineExceeded (TimeoutError)          .stage
        ResponseError (ValueError)               a 2xx that is no answer; .body
        StreamInterrupted                        the answer broke after its first content; .partial .events
        Refused                                  nothing was sent
          RequestBudgetSpent                     the scope around the call has no request left
          CircuitOpen                            the circuit breaker is open; .retry_after
          QueueFull                              as many calls wait as may
    Reject (Exception)                           raised by a validator: no other answer would do

The two urllib parents are there so that code which caught them around a hand-written loop goes on working.
"""

from __future__ import annotations

import io
import urllib.error

from ._error_base import BudgetError, CallError, Closed, ConfigError, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from email.message import Message
    from typing import Any

    from ._native import StreamEvent

__all__ = [
    "AttemptTimeout",
    "BudgetError",
    "CallError",
    "CircuitOpen",
    "Closed",
    "ConfigError",
    "ConnectError",
    "DeadlineExceeded",
    "Error",
    "HTTPStatusError",
    "ProxyError",
    "QueueFull",
    "ReadError",
    "Refused",
    "Reject",
    "RequestBudgetSpent",
    "ResponseError",
    "StreamInterrupted",
    "TLSError",
    "TransportError",
]


class HTTPStatusError(CallError, urllib.error.HTTPError):
    """The provider answered with an error status.

    It is a ``urllib.error.HTTPError``: ``code``, ``reason``, ``headers``, ``read()`` and ``url`` (without its query)
    work as there. ``body`` holds the whole body as bytes, however much was read.
    """

    body: bytes
    """The body of the answer, after content decoding; at most the first MiB."""

    def __init__(
        self,
        *,
        url: str,
        code: int,
        msg: str,
        header_pairs: tuple[tuple[str, str], ...] = (),
        body: bytes = b"",
        position: int = 0,
        **fields: Any,
    ) -> None:
        self._header_pairs = header_pairs
        self._message: Message | None = None
        self.body = body
        self._status = (url, code, msg)
        CallError.__init__(self, **fields)
        if position and self.fp is not None:
            self.fp.seek(position)

    def _init_parent(self, why: str) -> None:
        url, code, msg = self._status
        urllib.error.HTTPError.__init__(self, url, code, msg, None, io.BytesIO(self.body))  # type: ignore[arg-type]  # headers are made when asked for
        self.args = (why,)

    @property
    def headers(self) -> Message:
        """The headers of the answer, as ``email.message.Message``."""
        if self._message is None:
            from email.message import Message  # 20 ms of import, paid by who reads headers

            self._message = Message()
            for name, value in self._header_pairs:
                self._message[name] = value
        return self._message

    @headers.setter
    def headers(self, value: Message | None) -> None:
        # urllib's parents assign it while they are initialised; theirs is the None given above.
        if value is not None:
            self._message = value

    @property
    def hdrs(self) -> Message:
        """As ``headers``; urllib's older name."""
        return self.headers

    @hdrs.setter
    def hdrs(self, value: Message | None) -> None:
        self.headers = value

    def __getattr__(self, name: str) -> Any:
        # urllib's parent hands ``read`` and friends on to the body, but keeps them in ``__dict__`` (where pickle
        # trips over them) and is a KeyError before ``__init__`` has run.
        body = self.__dict__.get("fp")
        if body is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(body, name)

    def __str__(self) -> str:
        return self.why

    __repr__ = CallError.__repr__

    def _fields(self) -> dict[str, Any]:
        url, code, msg = self._status
        headers = tuple(self._message.items()) if self._message is not None else self._header_pairs
        read = 0 if self.fp is None or self.fp.closed else self.fp.tell()
        return super()._fields() | {
            "url": url,
            "code": code,
            "msg": msg,
            "header_pairs": headers,
            "body": self.body,
            "position": read,
        }

    def _own_state(self) -> set[str]:
        return _URLLIB_STATE


class TransportError(CallError, urllib.error.URLError):
    """No answer came, or not all of it. It is a ``urllib.error.URLError``; ``reason`` tells the cause in words, as there."""

    detail: str
    """The innermost cause in words, for example ``"Connection refused (os error 111)"``."""

    def __init__(self, *, detail: str, **fields: Any) -> None:
        self.detail = detail
        CallError.__init__(self, **fields)

    def _init_parent(self, why: str) -> None:
        # One argument: with two, OSError would read them as errno and text.
        urllib.error.URLError.__init__(self, self.detail)

    def __str__(self) -> str:
        return self.why

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"detail": self.detail}

    def _own_state(self) -> set[str]:
        return {"reason"}


class ConnectError(TransportError):
    """The request was never sent: name look-up, refused, unreachable."""


class TLSError(TransportError):
    """The server's certificate is not trusted, or TLS could not be agreed on."""


class ProxyError(TransportError):
    """The proxy asked for credentials, or opened no connection to the server."""


class ReadError(TransportError):
    """The connection broke after the request was sent: it may have been processed, and billed."""


class AttemptTimeout(TransportError, TimeoutError):
    """An attempt took too long; ``phase`` says which part of it."""

    phase: str
    """``"connect"``, ``"pool"``, ``"write"``, ``"read"``, or ``"attempt"`` for the whole attempt."""

    def __init__(self, *, phase: str, **fields: Any) -> None:
        self.phase = phase
        super().__init__(**fields)

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"phase": self.phase}


class DeadlineExceeded(CallError, TimeoutError):
    """The deadline leaves no room for another attempt. ``__cause__`` is the last failure, when there was one."""

    stage: str
    """``"queue"``, ``"before_attempt"``, ``"attempt"`` (it cut a running one) or ``"retry_delay"``."""

    def __init__(self, *, stage: str, late_result: object = None, **fields: Any) -> None:
        self.stage = stage
        self.late_result = late_result
        super().__init__(**fields)

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"stage": self.stage}

    def _own_state(self) -> set[str]:
        return {"late_result"}  # an answer is not carried into pickles and logs


class ResponseError(CallError, ValueError):
    """A 2xx that is no answer: not JSON, cut short, or an error object inside, classified as that error.

    Also an answer of a wrapped function that its validation refused without saying why.
    """

    status: int | None
    """The HTTP status, 2xx; ``None`` for the answer of a wrapped function."""
    body: bytes
    """The raw body, after content decoding."""

    def __init__(self, *, status: int | None, body: bytes = b"", **fields: Any) -> None:
        self.status = status
        self.body = body
        super().__init__(**fields)

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"status": self.status, "body": self.body}


class StreamInterrupted(CallError):
    """A stream that broke after its first content, which a replay would show twice: nothing is tried again.

    ``sent`` is ``"maybe"``: what came was billed, most likely. ``__cause__`` is what broke it.
    """

    partial: str
    """The visible text that had come."""
    events: tuple[StreamEvent, ...]
    """The last events given out, as many as hold 64 KiB of data."""
    usage: dict[str, int] | None
    """The tokens the provider had told of."""
    run_id: str | None
    """The provider's id for the answer, with which some let you ask for the rest."""

    def __init__(
        self,
        *,
        partial: str = "",
        events: tuple[StreamEvent, ...] = (),
        usage: dict[str, int] | None = None,
        run_id: str | None = None,
        **fields: Any,
    ) -> None:
        self.partial = partial
        self.events = events
        self.usage = usage
        self.run_id = run_id
        super().__init__(**fields)

    @property
    def safe_message(self) -> str:
        """One sentence fit for an end user: nothing internal is in it."""
        said = super().safe_message
        # The service was reached, whatever the other sentence of these says.
        return "The answer broke off before its end. Please try again later." if "reached" in said else said

    def _fields(self) -> dict[str, Any]:
        own = {"partial": self.partial, "events": self.events, "usage": self.usage, "run_id": self.run_id}
        return super()._fields() | own


class Refused(CallError):
    """Nothing was sent: the call was not allowed to begin."""


class RequestBudgetSpent(Refused):
    """The scope around the call has no request left, and this call made none."""


class CircuitOpen(Refused):
    """The circuit breaker lets nothing through; ``retry_after`` says for how many seconds, where that is known."""


class QueueFull(Refused):
    """As many calls wait as may: the client has more to do than it can."""


class Reject(Exception):
    """Raised, or returned, by a validator or a wrapped function: no other answer would do, so nothing is retried.

    It is yours, not ours: the call raises it as itself.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# What urllib's parents and we ourselves keep in __dict__ of an HTTPStatusError; rebuilt, so not copied.
_URLLIB_STATE = {
    *("_header_pairs", "_message", "_status", "body", "code", "msg", "fp", "filename", "url", "file", "name", "delete"),
    *("_closer", "headers", "hdrs", "__orig_bases__"),
}
