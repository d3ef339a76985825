"""An `Answer` as bytes: its head, and its body in pieces, cut short where the answer says so."""

import http
import json
import zlib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Literal, cast

from steadycall.testing.message import ABSENT, Answer

PIECE = 256 * 1024
"""Bytes of a generated body that are made at once."""


@lru_cache(maxsize=64)
def wire_of(answer: Answer) -> "Wire":
    """The bytes of an answer, made once however often a script repeats it."""
    return Wire(answer)


class Wire:
    """What of an answer is the same whoever asks."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.may_have_body = answer.status >= 200 and answer.status not in (204, 304)

    @cached_property
    def head(self) -> bytes:
        """The status line and the headers, with the empty line after them."""
        answer = self._answer
        try:
            reason = http.HTTPStatus(answer.status).phrase
        except ValueError:
            reason = "Unknown"
        pairs = cast("tuple[tuple[str, str], ...]", answer.headers)  # Answer has made them so
        given = {name.lower() for name, _ in pairs}
        lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in pairs)]
        if "content-type" not in given and (answer.json is not ABSENT or answer.big is not None):
            lines.append("content-type: application/json")
        if answer.content_encoding is not None:
            lines.append(f"content-encoding: {answer.content_encoding}")
        if self._is_chunked:
            lines.append("transfer-encoding: chunked")
        elif "content-length" not in given and self.may_have_body:
            lines.append(f"content-length: {self._length}")
        if answer.close:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    @cached_property
    def whole(self) -> bytes | None:
        """Head and body in one, for the usual answer; None when it goes out in pieces."""
        answer = self._answer
        if answer.big is not None or answer.drip is not None or self._is_chunked or self._limit is not None:
            return None
        return self.head + (self._encoded if self.may_have_body else b"")

    def pieces(self) -> Iterator[bytes]:
        """Head and body as they go over the wire; the head comes with the first piece of the body."""
        body = self._body()
        yield self.head + next(body, b"")
        yield from body

    def _body(self) -> Iterator[bytes]:
        answer = self._answer
        pieces = iter([self._encoded]) if answer.big is None else _big_json(answer.big)
        if answer.big is not None and answer.content_encoding is not None:
            pieces = _compressed(pieces, answer.content_encoding)
        if answer.drip is not None:
            pieces = _cut(pieces, answer.drip[0])
        if self._limit is not None:
            pieces = _first(pieces, self._limit)
        if not self._is_chunked:
            yield from pieces
            return
        for piece in pieces:
            if piece:  # an empty chunk would be the end
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._limit is None:
            yield b"0\r\n\r\n"

    @cached_property
    def _encoded(self) -> bytes:
        answer = self._answer
        plain = answer.body.encode() if isinstance(answer.body, str) else answer.body
        if answer.json is not ABSENT:
            plain = json.dumps(answer.json).encode()
        if answer.content_encoding is None:
            return plain
        return b"".join(_compressed(iter([plain]), answer.content_encoding))

    @cached_property
    def _length(self) -> int | None:
        """Bytes of the body as sent; None when only sending it can tell."""
        if self._answer.big is None:
            return len(self._encoded)
        return self._answer.big if self._answer.content_encoding is None else None

    @cached_property
    def _limit(self) -> int | None:
        """After how many bytes of the body the sending stops short; None when it does not."""
        if self._answer.truncate is not None:
            return self._answer.truncate
        if self._answer.reset == "body":
            return 1024 if self._length is None else self._length // 2
        return None

    @property
    def _is_chunked(self) -> bool:
        return self._answer.chunked or self._length is None


def _big_json(size: int) -> Iterator[bytes]:
    """A JSON string of ``size`` bytes, its quotes included."""
    filler = b"x" * PIECE
    yield b'"'
    left = size - 2
    while left > PIECE:
        yield filler
        left -= PIECE
    yield filler[:left] + b'"'


def _compressed(pieces: Iterator[bytes], encoding: Literal["gzip", "deflate"]) -> Iterator[bytes]:
    # 16 asks zlib for gzip's frame; without it the frame is zlib's own, which is what HTTP calls deflate.
    engine = zlib.compressobj(wbits=zlib.MAX_WBITS + (16 if encoding == "gzip" else 0))
    for piece in pieces:
        if squeezed := engine.compress(piece):
            yield squeezed
    yield engine.flush()


def _cut(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        for start in range(0, len(piece), size):
            yield piece[start : start + size]


def _first(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """At most ``size`` bytes of the pieces."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)
