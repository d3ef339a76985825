"""An HTTP answer as ``curl -i`` prints it, read: the last of its header blocks, and what stands behind it.

Tolerant where tools differ: LF or CRLF, HTTP/2 status lines without a phrase, folded headers, a body that is still
chunked or compressed, a file that a Windows shell wrote as UTF-16. Strict where a guess would judge another answer.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from dataclasses import dataclass

_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})(?: [^\r\n]*)?(?:\r?\n|\Z)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


class NotHTTP(ValueError):
    """What was given is no HTTP message."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer: the status, the headers as pairs, and the body after transfer and content decoding."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def looks_like_one(data: bytes) -> bool:
    """Whether it begins with a status line."""
    return _STATUS.match(_plain(data)) is not None


def read_answer(data: bytes) -> Answer:
    """The answer in a message that may have several header blocks: of a proxy, of redirects, 100 Continue.

    Raises:
        NotHTTP: it has no status line, or a header is none.
    """
    rest = _plain(data)
    if _STATUS.match(rest) is None:
        raise NotHTTP("there is no status line such as 'HTTP/1.1 429 Too Many Requests'; is it the output of curl -i?")
    line = 1
    while (found := _STATUS.match(rest)) is not None:
        head, rest = _split(rest[found.end() :])
        status, headers = int(found[1]), _headers(head, line + 1)
        line += 2 + head.count(b"\n")
    return Answer(status, headers, _decoded(rest, headers))


def read_header(given: str) -> tuple[str, str]:
    """A header as a user writes it, ``Name: value``.

    Raises:
        NotHTTP: it is none.
    """
    name, colon, value = given.partition(":")
    if not colon or _FIELD.match(name.strip()) is None:
        raise NotHTTP("a header is written 'Name: value'")
    return name.strip(), value.strip()


def _plain(data: bytes) -> bytes:
    """Without what shells and editors put in front."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The header lines, each with its end, and what stands behind the empty line."""
    if found := re.match(rb"\r?\n", data):
        return b"", data[found.end() :]
    if found := re.search(rb"\n\r?\n", data):
        return data[: found.start() + 1], data[found.end() :]
    return data, b""


def _headers(head: bytes, first: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for number, line in enumerate(head.decode("latin-1").splitlines(), first):
        if line[:1] in (" ", "\t") and found:
            name, value = found.pop()
            found.append((name, f"{value} {line.strip()}"))
        else:
            try:
                found.append(read_header(line))
            except NotHTTP as error:
                raise NotHTTP(f"line {number} is no header: {error}") from None
    return found


def _decoded(body: bytes, headers: list[tuple[str, str]]) -> bytes:
    """The body without what is left of its encodings; most tools have taken them off, and left their headers."""
    said = {name.lower(): value.lower() for name, value in headers}
    if "chunked" in said.get("transfer-encoding", ""):
        body = _unchunked(body)
    try:
        if body.startswith(b"\x1f\x8b"):
            return gzip.decompress(body)
        if said.get("content-encoding") == "deflate":
            return zlib.decompress(body)
    except (OSError, EOFError, zlib.error):
        pass
    return body


def _unchunked(body: bytes) -> bytes:
    """The chunks of a body put together; the body itself when it is not made of chunks."""
    parts: list[bytes] = []
    place = 0
    while (found := _CHUNK.match(body, place)) is not None:
        end = found.end() + int(found[1], 16)
        if int(found[1], 16) == 0:
            return b"".join(parts)
        parts.append(body[found.end() : end])
        gap = re.compile(rb"\r?\n").match(body, end)
        if gap is None:
            break
        place = gap.end()
    return body
