"""What goes back and forth: the `Answer` a script holds and the `Request` it is given to."""

import json as jsonlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from email.message import Message
from typing import Any, Literal, TypeAlias

ABSENT: Any = object()
"""Where no ``json`` was given; None would be JSON's null."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What the server does with one request. Everything but ``status`` is given by name.

    Args:
        status: the HTTP status.
        headers: a mapping, or pairs when a name is repeated.
        json: any value ``json.dumps`` takes; sets ``content-type: application/json`` unless ``headers`` does.
        body: bytes, or text sent as UTF-8; not together with ``json``.
        delay: seconds between the request and the answer's first byte.
        drip: ``(size, seconds)``: the body in pieces of ``size`` bytes with a pause after each.
        reset: a TCP reset: ``"before"`` any byte, in the middle of the ``"headers"`` or of the ``"body"``.
        truncate: declare the whole body, send this many of its bytes, close.
        garbage: send these bytes in place of HTTP and close; ``b""`` closes without a word.
        never: read the request and never answer.
        close: say ``connection: close`` and do so.
        close_idle: say nothing, and close the connection after this many idle seconds; 0 closes right after the answer.
        chunked: ``transfer-encoding: chunked`` in place of a content length.
        content_encoding: compress the body with ``"gzip"`` or ``"deflate"`` and say so.
        big: a JSON string of exactly this many bytes, made while it is sent; with ``content_encoding`` it is a bomb.
    """

    status: int = field(default=200, kw_only=False)
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
    json: Any = ABSENT
    body: bytes | str = b""
    delay: float = 0.0
    drip: tuple[int, float] | None = None
    reset: Literal["before", "headers", "body"] | None = None
    truncate: int | None = None
    garbage: bytes | None = None
    never: bool = False
    close: bool = False
    close_idle: float | None = None
    chunked: bool = False
    content_encoding: Literal["gzip", "deflate"] | None = None
    big: int | None = None

    def __post_init__(self) -> None:
        # Copied once: a later change of the caller's dict must not change an answer, and an iterator is read only once.
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        object.__setattr__(self, "headers", tuple(_checked(name, value) for name, value in pairs))
        status: Any = self.status  # a script's function may give anything
        if not isinstance(status, int) or not 100 <= status <= 999:
            raise ValueError(f"status is a number from 100 to 999, got {self.status!r}")
        if not isinstance(self.body, (bytes, str)):
            raise ValueError(f"body is bytes or text, got {self.body!r}")
        if self.json is not ABSENT:
            jsonlib.dumps(self.json)  # says here, and not in the server's thread, what it cannot write
        if self.json is not ABSENT and self.body:
            raise ValueError("json and body are two spellings of one body: give one")
        if self.big is not None and (self.big < 2 or self.json is not ABSENT or self.body):
            raise ValueError("big makes its own body, of 2 bytes or more: give neither json nor body")
        if self.drip is not None and self.drip[0] < 1:
            raise ValueError(f"drip needs pieces of 1 byte or more, got {self.drip[0]}")
        if self.reset not in (None, "before", "headers", "body"):
            raise ValueError(f'reset is "before", "headers" or "body", got {self.reset!r}')
        if self.content_encoding not in (None, "gzip", "deflate"):
            raise ValueError(f'content_encoding is "gzip" or "deflate", got {self.content_encoding!r}')
        if (self.reset == "body" or self.truncate is not None) and not self.has_body:
            raise ValueError("a cut in the middle of the body needs a body: give json, body or big")

    def replace(self, **changes: Any) -> "Answer":
        """A copy with some fields changed: ``answers.openai.ok().replace(delay=0.2)``."""
        return replace(self, **changes)

    @property
    def has_body(self) -> bool:
        """Whether there is a byte to send after the headers."""
        return self.json is not ABSENT or bool(self.body) or self.big is not None

    def __repr__(self) -> str:
        shown = [f"{f.name}=..." for f in fields(self)[1:] if getattr(self, f.name) not in (f.default, None)]
        return f"Answer({', '.join([str(self.status), *shown])})"


def _checked(name: Any, value: Any) -> tuple[str, str]:
    """A header as text. What no server can write would end a connection in the middle of a test, far from the mistake."""
    if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"a header's name is an HTTP token, got {name!r}")
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    if not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", text):
        raise ValueError(
            f"headers[{name!r}] is text in latin-1 without line breaks and control characters, got {value!r}"
            " (for broken HTTP there is garbage)"
        )
    return name, text


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A request as the server read it."""

    method: str
    #: The path alone, as it was sent (percent signs and all).
    path: str
    query: str = field(repr=False)
    #: The target of the request line: the path and query, or a whole URL when the server is used as a proxy.
    target: str = field(repr=False)
    #: Names in any case; ``get_all`` for repeated ones.
    headers: Message = field(repr=False)
    body: bytes = field(repr=False)
    #: Which connection brought it, counted from 1; equal numbers mean the connection was used again.
    connection: int
    #: ``time.monotonic()`` when the last byte had been read.
    received_at: float

    def json(self) -> Any:
        """The body, parsed."""
        return jsonlib.loads(self.body)


#: What a script may hold: an answer, a bare status, or a function that is shown the request and gives either of them.
Step: TypeAlias = Answer | int | Callable[[Request], Answer | int]
