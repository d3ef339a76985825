"""A real HTTP/1.1 server on the loopback interface that answers by script and misbehaves on purpose.

One blocking thread per connection, so that each fault reads as the order of its socket calls; no HTTP library, because
none of them can cut a header in two.
What a body looks like is left to ``answers.py``.
"""

import asyncio
import http
import json as jsonlib
import os
import socket
import struct
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from email.message import Message
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

_ABSENT: Any = object()
_PIECE = 256 * 1024
_RECEIVED_AT_ONCE = 64 * 1024


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
    json: Any = _ABSENT
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
        object.__setattr__(self, "headers", self._pairs)
        if self.json is not _ABSENT and self.body:
            raise ValueError("json and body are two spellings of one body: give one")
        if self.big is not None and (self.big < 2 or self.json is not _ABSENT or self.body):
            raise ValueError("big makes its own body, of 2 bytes or more: give neither json nor body")
        if self.drip is not None and self.drip[0] < 1:
            raise ValueError(f"drip needs pieces of 1 byte or more, got {self.drip[0]}")
        if self.reset not in (None, "before", "headers", "body"):
            raise ValueError(f'reset is "before", "headers" or "body", got {self.reset!r}')
        if self.content_encoding not in (None, "gzip", "deflate"):
            raise ValueError(f'content_encoding is "gzip" or "deflate", got {self.content_encoding!r}')
        if (self.reset == "body" or self.truncate is not None) and self._length == 0:
            raise ValueError("a cut in the middle of the body needs a body: give json, body or big")

    def replace(self, **changes: Any) -> "Answer":
        """A copy with some fields changed: ``answers.openai.ok().replace(delay=0.2)``."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        shown = [f"{f.name}=..." for f in fields(self)[1:] if getattr(self, f.name) not in (f.default, None)]
        return f"Answer({', '.join([str(self.status), *shown])})"

    @cached_property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return tuple((name, str(value)) for name, value in pairs)

    @cached_property
    def _encoded(self) -> bytes:
        plain = self.body.encode() if isinstance(self.body, str) else self.body
        if self.json is not _ABSENT:
            plain = jsonlib.dumps(self.json).encode()
        if self.content_encoding is None:
            return plain
        return b"".join(_compressed(iter([plain]), self.content_encoding))

    @cached_property
    def _length(self) -> int | None:
        """Bytes of the body as sent; None when only sending it can tell."""
        if self.big is None:
            return len(self._encoded)
        return self.big if self.content_encoding is None else None

    @cached_property
    def _limit(self) -> int | None:
        """After how many bytes of the body the sending stops short; None when it does not."""
        if self.truncate is not None:
            return self.truncate
        if self.reset == "body":
            return 1024 if self._length is None else self._length // 2
        return None

    @cached_property
    def _head(self) -> bytes:
        try:
            reason = http.HTTPStatus(self.status).phrase
        except ValueError:
            reason = "Unknown"
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in self._pairs)]
        given = {name.lower() for name, _ in self._pairs}
        if "content-type" not in given and (self.json is not _ABSENT or self.big is not None):
            lines.append("content-type: application/json")
        if self.content_encoding is not None:
            lines.append(f"content-encoding: {self.content_encoding}")
        if self._is_chunked:
            lines.append("transfer-encoding: chunked")
        elif "content-length" not in given and self._may_have_body:
            lines.append(f"content-length: {self._length}")
        if self.close:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    @property
    def _is_chunked(self) -> bool:
        return self.chunked or self._length is None

    @property
    def _may_have_body(self) -> bool:
        return self.status >= 200 and self.status not in (204, 304)

    @cached_property
    def _plain_wire(self) -> bytes | None:
        """The whole answer in one piece, for the fast path; None when it is more than that."""
        if self.big is not None or self.drip or self.chunked or self._limit is not None or self.reset:
            return None
        return self._head + (self._encoded if self._may_have_body else b"")

    def _body_pieces(self) -> Iterator[bytes]:
        """The body as it goes over the wire, cut short where the answer says so."""
        pieces = iter([self._encoded]) if self.big is None else _big_json(self.big)
        if self.big is not None and self.content_encoding is not None:
            pieces = _compressed(pieces, self.content_encoding)
        if self.drip is not None:
            pieces = _cut(pieces, self.drip[0])
        if self._limit is not None:
            pieces = _first(pieces, self._limit)
        if not self._is_chunked:
            yield from pieces
            return
        for piece in pieces:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._limit is None:
            yield b"0\r\n\r\n"


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


class FakeServer:
    """A scripted HTTP server on 127.0.0.1, for ``with`` and ``async with``.

    Args:
        answers: the script for every path that has none of its own.
        host: the address to listen on.
        port: 0 takes a free one.
        tls: a server-side context; the URL then starts with https.

    Scripts belong to paths. When a script has ended, its last answer is repeated (or ``then`` is, if given).
    A path without a script, where ``"*"`` has none either, is answered with 404 and a body that says so.
    Counters and ``requests`` may be read from any thread.

    A forked child inherits the sockets but not the threads: the server goes on in the parent only, ``close`` in a child
    leaves the parent's connections alone, and a reset of a connection that is older than the fork is not seen before
    the child ends.
    """

    def __init__(
        self, *answers: Step, host: str = "127.0.0.1", port: int = 0, tls: "ssl.SSLContext | None" = None
    ) -> None:
        self._address = (host, port)
        self._tls = tls
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._pid = 0
        self._closed = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._scripts: dict[str, _Script] = {}
        self._open: dict[int, tuple[_Connection, threading.Thread]] = {}
        #: Every request that was read to its end, in order.
        self.requests: list[Request] = []
        #: Connections accepted so far.
        self.connections = 0
        #: Requests that were read and are not answered, on connections that are still open.
        self.in_flight = 0
        #: Requests whose client closed the connection before the answer's last piece was sent.
        self.aborted = 0
        #: What scripted functions raised; the first one is raised again at the end of ``with``.
        self.errors: list[BaseException] = []
        if answers:
            self.script("*", answers)

    # Scripting

    def script(self, path: str, answers: Iterable[Step], *, then: Step | None = None) -> None:
        """Set the answers for a path, from its next request on; a script it had is replaced.

        Args:
            path: a path without query, or ``"*"`` for every path that has no script.
            answers: at least one, given one to a request.
            then: the answer to all further requests; the last of ``answers`` unless given.
        """
        steps = tuple(answers)
        if not steps and then is None:
            raise ValueError("a script needs at least one answer")
        for step in steps if then is None else (*steps, then):
            if not (isinstance(step, (Answer, int)) or callable(step)):
                raise TypeError(f"a script holds Answer, int or a function, not {type(step).__name__}")
        with self._lock:
            self._scripts[path] = _Script(steps, steps[-1] if then is None else then)

    def answer(self, path: str, *answers: Step) -> None:
        """``script``, with the answers one after the other."""
        self.script(path, answers)

    # What happened

    @property
    def connections_open(self) -> int:
        """Accepted connections that neither side has closed yet."""
        with self._lock:
            return len(self._open)

    def wait_for(self, predicate: "Callable[[FakeServer], object]", timeout: float = 5.0) -> bool:
        """Block until ``predicate(server)`` is true: ``server.wait_for(lambda s: s.in_flight == 1)``.

        Returns:
            True; there is no other value.

        Raises:
            AssertionError: with the state of the server, when it stays false for ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while not predicate(self):
            left = end - time.monotonic()
            if left <= 0:
                raise self._waited_in_vain(timeout)
            with self._changed:
                # Never longer than this: the predicate may look at more than the server.
                self._changed.wait(min(left, 0.01))
        return True

    async def await_for(self, predicate: "Callable[[FakeServer], object]", timeout: float = 5.0) -> bool:
        """``wait_for`` that leaves the event loop running."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while not predicate(self):
            if loop.time() >= end:
                raise self._waited_in_vain(timeout)
            # Deliberately not asyncio.sleep: the test may have put a fake in its place.
            tick = loop.create_future()
            timer = loop.call_later(0.002, tick.set_result, None)
            try:
                await tick
            finally:
                timer.cancel()
        return True

    def _waited_in_vain(self, timeout: float) -> AssertionError:
        return AssertionError(f"not true after {timeout} s: {self!r}")

    def __repr__(self) -> str:
        where = self.url if self._listener is not None else "not running"
        return (
            f"<FakeServer {where}: {len(self.requests)} requests, {self.in_flight} in flight, {self.aborted} aborted, "
            f"{len(self._open)} of {self.connections} connections open>"
        )

    # Life

    @property
    def url(self) -> str:
        """``http://127.0.0.1:port``, without a slash at the end."""
        if self._listener is None:
            raise RuntimeError("the server is not running: use `with FakeServer() as server:` or start()")
        return f"{'http' if self._tls is None else 'https'}://{self._address[0]}:{self._address[1]}"

    def url_for(self, path: str) -> str:
        """The URL of a path, which starts with a slash."""
        return self.url + path

    def start(self) -> Self:
        """Listen. ``with`` does this by itself."""
        if self._closed or self._listener is not None:
            raise RuntimeError("a server is started once")
        # create_server sets SO_REUSEADDR where it is safe; Python's sockets are closed on exec.
        self._listener = socket.create_server(self._address, backlog=4096)
        self._address = self._listener.getsockname()[:2]
        self._pid = os.getpid()
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), name="FakeServer", daemon=True)
        self._acceptor.start()
        return self

    def close(self) -> None:
        """Close every connection and end every thread; a second call does nothing."""
        listener, acceptor = self._listener, self._acceptor
        if self._closed or listener is None or acceptor is None:
            self._closed = True
            return
        self._closed = True
        if os.getpid() != self._pid:
            # A forked child: these sockets are copies, and a shutdown would reach through them to the parent's.
            listener.close()
            return
        try:
            # accept() does not return when another thread closes the socket: give it something to accept.
            socket.create_connection(self._address, timeout=1).close()
        except OSError:
            pass
        acceptor.join(5)
        with self._lock:
            connections = list(self._open.values())
        # shutdown and not only close: the other side must see the end though a forked child holds a copy.
        for sock in (listener, *(connection.sock for connection, _ in connections)):
            _shut(sock)
        listener.close()
        for _, thread in connections:
            thread.join(5)
            if thread.is_alive():
                raise RuntimeError("a connection of FakeServer did not end: does a scripted function hang?")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.errors:
            raise self.errors[0]

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # Threads

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.01)  # out of file descriptors, most likely: a busy test frees some
                continue
            if self._closed:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.connections += 1
                number = self.connections
                connection = _Connection(self, sock, number)
                thread = threading.Thread(target=connection.run, name=f"FakeServer-{number}", daemon=True)
                self._open[number] = (connection, thread)
                self._changed.notify_all()
            thread.start()

    def _received(self, request: Request) -> Step | None:
        with self._changed:
            self.requests.append(request)
            self.in_flight += 1
            self._changed.notify_all()
            script = self._scripts.get(request.path) or self._scripts.get("*")
            return None if script is None else script.next()

    def _finished(self, *, aborted: bool = False) -> None:
        with self._changed:
            self.in_flight -= 1
            self.aborted += aborted
            self._changed.notify_all()

    def _disconnected(self, number: int) -> None:
        with self._changed:
            del self._open[number]
            self._changed.notify_all()


class _Script:
    def __init__(self, steps: tuple[Step, ...], then: Step) -> None:
        self._steps = iter(steps)
        self._then = then

    def next(self) -> Step:
        return next(self._steps, self._then)


class _Gone(Exception):
    """The client has closed the connection, or the server is closing it."""


class _Connection:
    """One accepted socket and the thread that serves it."""

    def __init__(self, server: FakeServer, sock: socket.socket, number: int) -> None:
        self._server = server
        self.sock = sock
        self._number = number
        self._buffer = b""
        self._unanswered = False

    def run(self) -> None:
        idle: float | None = None
        try:
            if self._server._tls is not None:
                self.sock = self._server._tls.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
                self.sock.do_handshake()
            while True:
                try:
                    request, reusable = self._read(idle)
                except ValueError:
                    self.sock.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    return
                self._unanswered = True
                step = self._server._received(request)
                answer = self._resolve(step, request)
                if not self._perform(answer, request.method) or not reusable or answer.close:
                    return
                idle = answer.close_idle
        except (_Gone, OSError):
            if self._unanswered:
                self._unanswered = False
                self._server._finished(aborted=not self._server._closed)
        finally:
            _shut(self.sock)
            self.sock.close()
            self._server._disconnected(self._number)

    # Reading

    def _read(self, idle: float | None) -> tuple[Request, bool]:
        """The next request, and whether its client would keep the connection."""
        if not self._buffer and not self._receive(idle):
            raise _Gone
        if not self._buffer[:1].isalpha():
            raise ValueError("not HTTP: a TLS handshake, most likely")
        while b"\r\n\r\n" not in self._buffer:
            self._receive(None)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ", 2)
        headers = Message()
        for line in lines:
            name, _, value = line.partition(":")
            headers[name] = value.strip()
        if "100-continue" in headers.get("expect", "").lower():
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._read_body(headers)
        parts = urlsplit(target) if "://" in target else None
        path, _, query = target.partition("?") if parts is None else (parts.path or "/", "", parts.query)
        request = Request(
            method=method, path=path, query=query, target=target, headers=headers, body=body,
            connection=self._number, received_at=time.monotonic(),
        )  # fmt: skip
        wish = headers.get("connection", "").lower()
        return request, "close" not in wish and (version != "HTTP/1.0" or "keep-alive" in wish)

    def _read_body(self, headers: Message) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            return self._take(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int(self._line().partition(b";")[0], 16):
            body += self._take(size)
            self._line()
        while self._line():
            pass  # trailers
        return bytes(body)

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._receive(None)
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, size: int) -> bytes:
        if len(self._buffer) < size:
            parts = [self._buffer]
            missing = size - len(self._buffer)
            while missing > 0:
                self._buffer = b""
                self._receive(None)
                parts.append(self._buffer)
                missing -= len(self._buffer)
            self._buffer = b"".join(parts)
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _receive(self, seconds: float | None) -> bool:
        """Add what arrives to the buffer; False when nothing did within ``seconds``, ``_Gone`` at the end."""
        if seconds == 0:
            return False
        if self.sock.gettimeout() != seconds:
            self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(_RECEIVED_AT_ONCE)
        except TimeoutError:
            return False
        if not data:
            raise _Gone
        self._buffer += data
        return True

    def _wait(self, seconds: float | None) -> None:
        """Let time pass and notice when the client closes meanwhile; None waits for just that."""
        end = None if seconds is None else time.monotonic() + seconds
        left = seconds
        while left is None or left > 0:
            self._receive(left)
            left = None if end is None else end - time.monotonic()

    # Answering

    def _resolve(self, step: Step | None, request: Request) -> Answer:
        if step is None:
            said = f"FakeServer has no script for {request.method} {request.path}, and none for *"
            return Answer(404, json={"error": {"message": said}})
        if callable(step):
            try:
                step = step(request)
            except BaseException as error:  # kept for the test's own thread, which raises it again
                self._server.errors.append(error)
                return Answer(500, json={"error": {"message": f"a scripted function raised {error!r}"}}, close=True)
        return step if isinstance(step, Answer) else Answer(step)

    def _perform(self, answer: Answer, method: str) -> bool:
        """Carry out the answer; False when the connection ends with it."""
        if answer.delay > 0:
            self._wait(answer.delay)
        if answer.never:
            self._wait(None)
        if answer.reset == "before":
            return self._reset()
        if answer.garbage is not None:
            self._send(iter([answer.garbage]))
            return False
        if answer.reset == "headers":
            self._send(iter([answer._head[: len(answer._head) // 2]]))
            return self._reset()
        if method == "HEAD" or not answer._may_have_body:
            self._send(iter([answer._head]))
            return True
        if answer._plain_wire is not None:
            self._send(iter([answer._plain_wire]))
            return True
        self._send(_glued(answer._head, answer._body_pieces()), 0.0 if answer.drip is None else answer.drip[1])
        if answer.reset == "body":
            return self._reset()
        return answer.truncate is None

    def _send(self, pieces: Iterator[bytes], pause: float = 0.0) -> None:
        """All pieces. The request counts as answered just before the last one, so that a client holding the whole
        answer never finds it still in flight."""
        piece = next(pieces)
        for following in pieces:
            self._send_one(piece)
            self._wait(pause)
            piece = following
        self._answered()
        self._send_one(piece)

    def _send_one(self, piece: bytes) -> None:
        self.sock.settimeout(None)
        self.sock.sendall(piece)

    def _answered(self) -> None:
        if self._unanswered:
            self._unanswered = False
            self._server._finished()

    def _reset(self) -> bool:
        """Close with RST in place of FIN."""
        self._answered()
        on_without_linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on_without_linger)
        self.sock.close()
        return False


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already, or by the other side


def _glued(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The head together with the first piece, so that small answers are one packet."""
    yield head + next(pieces, b"")
    yield from pieces


def _big_json(size: int) -> Iterator[bytes]:
    """A JSON string of ``size`` bytes, its quotes included."""
    filler = b"x" * _PIECE
    yield b'"'
    left = size - 2
    while left > _PIECE:
        yield filler
        left -= _PIECE
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
