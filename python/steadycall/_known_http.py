"""What the errors of HTTP clients mean: one table for each client, class by class, by name.

Whether the request was sent follows from the class, never from the message. A class that a client raises for many
faults is ``vague``, so that what stands behind it in the chain goes before it.
"""

from __future__ import annotations

import io

from ._chain import attribute
from ._finding import ANSWER, NO, PHASE, TRANSPORT, VAGUE, Finding, answer, fault, invalid, refusal, vague
from ._native import failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._finding import Table

MOST_READ = 1 << 20
"""Bytes of an error body that are read; the core looks at no more."""


def of_response(exc: Any) -> Finding | None:
    """The answer an exception carries as ``response``."""
    response = attribute(exc, "response")
    status = attribute(response, "status_code")
    return answer(status, attribute(response, "headers"), body_of(response), attribute(response, "url"))


def body_of(response: object) -> bytes:
    """The body as far as it is in memory: a property such as ``requests``' ``content`` would go and read it."""
    for name in ("_content", "_body"):
        body = attribute(response, name)
        if isinstance(body, bytes):
            return body
    return b""


# httpx and its successor httpx2, and httpcore below either, have the same names.
HTTPX: Table = {
    "HTTPStatusError": of_response,
    "ConnectTimeout": fault("connect_timeout", NO),
    "PoolTimeout": fault("pool_timeout", NO),
    "ReadTimeout": fault("read_timeout"),
    "WriteTimeout": fault("write_timeout"),
    "TimeoutException": vague("timed_out"),
    "ConnectError": fault("connect_failed", NO),
    "ReadError": fault("connection_lost"),
    "WriteError": fault("connection_lost"),
    "RemoteProtocolError": fault("connection_lost"),
    "ProxyError": fault("proxy_refused", NO),
    "DecodingError": fault("body_corrupt"),
    "TooManyRedirects": refusal("redirected"),
    "UnsupportedProtocol": refusal("programming_error"),
    "LocalProtocolError": refusal("programming_error"),
    "InvalidURL": refusal("programming_error"),
    "CookieConflict": refusal("programming_error"),
    "StreamError": refusal("programming_error"),
    "ProtocolError": vague("not_http"),
    "NetworkError": vague("connection_lost"),
    "HTTPError": vague("connection_lost"),
}

REQUESTS: Table = {
    "HTTPError": of_response,
    "ConnectTimeout": fault("connect_timeout", NO),
    "ReadTimeout": fault("read_timeout"),
    "Timeout": vague("timed_out"),
    # Both stand for any fault of their kind; urllib3's error behind them says which.
    "SSLError": vague("tls_failed"),
    "ProxyError": vague("proxy_refused", NO),
    "ConnectionError": vague("connection_lost"),
    "ChunkedEncodingError": vague("truncated"),
    "ContentDecodingError": fault("body_corrupt"),
    "JSONDecodeError": invalid(known=True),
    "TooManyRedirects": refusal("redirected"),
    "RetryError": vague("server_error"),
    "InvalidJSONError": refusal("programming_error"),
    "InvalidURL": refusal("programming_error"),
    "InvalidHeader": refusal("programming_error"),
    "InvalidSchema": refusal("programming_error"),
    "MissingSchema": refusal("programming_error"),
    "URLRequired": refusal("programming_error"),
    "StreamConsumedError": refusal("programming_error"),
    "RequestException": vague("connection_lost"),
}


def too_many_answers(exc: Any) -> Finding:
    """``urllib3`` gave up on statuses and threw the answers away."""
    return Finding(ANSWER, VAGUE, failure("server_error", "maybe"))


URLLIB3: Table = {
    "NewConnectionError": fault("connect_failed", NO),
    "ConnectTimeoutError": fault("connect_timeout", NO),
    "EmptyPoolError": fault("pool_timeout", NO),
    "ReadTimeoutError": fault("read_timeout"),
    "TimeoutError": vague("timed_out"),
    "IncompleteRead": fault("truncated"),
    "InvalidChunkLength": fault("truncated"),
    "ProtocolError": vague("connection_lost"),
    "SSLError": vague("tls_failed"),
    "ProxyError": vague("proxy_refused", NO),
    "DecodeError": fault("body_corrupt"),
    "ResponseError": too_many_answers,
    "HeaderParsingError": fault("not_http"),
    "ClosedPoolError": refusal("programming_error"),
    "LocationValueError": refusal("programming_error"),
    "TimeoutStateError": refusal("programming_error"),
    "HTTPError": vague("connection_lost"),
}


def of_urllib(exc: Any) -> Finding | None:
    """A ``urllib.error.HTTPError``; its body is still in the socket, so it is read and put back."""
    return answer(attribute(exc, "code"), attribute(exc, "headers"), put_back(exc), attribute(exc, "url"))


def put_back(exc: Any) -> bytes:
    """The rest of the body, which the caller can read as if nobody had."""
    rest = attribute(exc, "fp")
    try:
        head: bytes = rest.read(MOST_READ)
    except Exception:  # None, closed, cut short, too slow: judged without
        return b""
    exc.fp = exc.file = io.BufferedReader(_Again(io.BytesIO(head), rest))
    for name in ("read", "read1", "readinto", "readline", "readlines", "close"):
        exc.__dict__.pop(name, None)  # bound to the old file at their first use
    return head


class _Again(io.RawIOBase):
    """What was read of a file, then the rest of it."""

    def __init__(self, head: io.BytesIO, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._rest.close()
        super().close()


def of_urlerror(exc: Any) -> Finding:
    """A ``URLError``: raised while connecting and sending only, so a time limit was the connection's."""
    late = isinstance(attribute(exc, "reason"), TimeoutError)
    return Finding(TRANSPORT, PHASE if late else VAGUE, failure("connect_timeout" if late else "connect_failed", NO))


URLLIB: Table = {
    "HTTPError": of_urllib,
    "ContentTooShortError": fault("truncated"),
    "URLError": of_urlerror,
}

# http.client, below urllib, requests and urllib3.
HTTP: Table = {
    "RemoteDisconnected": fault("connection_lost"),
    "IncompleteRead": fault("truncated"),
    "InvalidURL": refusal("programming_error"),
    "ImproperConnectionState": refusal("programming_error"),
    "NotConnected": refusal("programming_error"),
    "HTTPException": vague("not_http"),
}


def of_aiohttp(exc: Any) -> Finding | None:
    """A ``ClientResponseError``: status and headers; aiohttp has thrown the body away."""
    return answer(attribute(exc, "status"), attribute(exc, "headers"))


def not_json(exc: Any) -> Finding | None:
    """``response.json()`` on something else: an answer in the wrong form, if its status was a good one."""
    status, headers = attribute(exc, "status"), attribute(exc, "headers")
    if not isinstance(status, int) or not 200 <= status < 300:
        return None
    html = "html" in str(headers.get("content-type", "")) if headers else False
    return Finding(ANSWER, VAGUE, failure("html_page" if html else "not_json", "maybe"))


AIOHTTP: Table = {
    "ContentTypeError": not_json,
    "ClientHttpProxyError": fault("proxy_refused", NO),
    "TooManyRedirects": refusal("redirected"),
    "ClientResponseError": of_aiohttp,
    "ConnectionTimeoutError": fault("connect_timeout", NO),
    "SocketTimeoutError": fault("read_timeout"),
    "ServerTimeoutError": vague("timed_out"),
    "ClientConnectorCertificateError": fault("certificate_rejected", NO),
    "ServerFingerprintMismatch": fault("certificate_rejected", NO),
    "ClientConnectorSSLError": fault("tls_failed", NO),
    "ClientConnectorError": fault("connect_failed", NO),
    "ClientConnectionResetError": fault("connection_lost"),
    "ServerDisconnectedError": fault("connection_lost"),
    "ClientPayloadError": fault("truncated"),
    "InvalidURL": refusal("programming_error"),
    "NonHttpUrlClientError": refusal("programming_error"),
    "RedirectClientError": refusal("redirected"),
    "ClientError": vague("connection_lost"),
}

CLIENTS: dict[str, Table] = {
    "httpx": HTTPX,
    "httpx2": HTTPX,
    "httpcore": HTTPX,
    "httpcore2": HTTPX,
    "requests": REQUESTS,
    "urllib3": URLLIB3,
    "urllib": URLLIB,
    "http": HTTP,
    "aiohttp": AIOHTTP,
}
