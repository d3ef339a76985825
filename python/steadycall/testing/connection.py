"""One connection of the fake server: reads requests and carries out answers, faults included.

A blocking thread for each, so that every fault reads as the order of its socket calls; no HTTP library, because none
of them can cut a header in two.
Which answer it is, and what is counted, is left to the server, the `Desk`.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator
from email.message import Message
from typing import Protocol
from urllib.parse import urlsplit

from steadycall.testing.message import Answer, Request, Step
from steadycall.testing.wire import wire_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

RECEIVED_AT_ONCE = 64 * 1024


class Desk(Protocol):
    """Where a connection asks for answers and reports what became of them."""

    tls: "ssl.SSLContext | None"

    def received(self, request: Request) -> Step | None:
        """A request was read: what is its answer?"""

    def finished(self, *, aborted: bool = False) -> None:
        """It is answered, or nobody is there any more to answer to."""

    def failed(self, error: BaseException) -> None:
        """A scripted function raised."""

    def disconnected(self, number: int) -> None:
        """The connection is closed."""


class _Gone(Exception):
    """The client has closed the connection, or the server is closing it."""


class Connection:
    """One accepted socket and the thread that serves it."""

    def __init__(self, desk: Desk, sock: socket.socket, number: int) -> None:
        self._desk = desk
        self.sock = sock
        self._number = number
        self._buffer = b""
        self._unanswered = False

    def run(self) -> None:
        idle: float | None = None
        try:
            if self._desk.tls is not None:
                self.sock = self._desk.tls.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
                self.sock.do_handshake()
            while True:
                try:
                    request, reusable = self._read(idle)
                except ValueError:
                    self.sock.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    return
                self._unanswered = True
                step = self._desk.received(request)
                answer = self._resolve(step, request)
                if not self._perform(answer, request.method) or not reusable or answer.close:
                    return
                idle = answer.close_idle
        except (_Gone, OSError):
            pass
        finally:
            if self._unanswered:
                self._desk.finished(aborted=True)
            shut(self.sock)
            self.sock.close()
            self._desk.disconnected(self._number)

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
            data = self.sock.recv(RECEIVED_AT_ONCE)
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
        try:
            given = step(request) if callable(step) else step
            return given if isinstance(given, Answer) else Answer(given)
        except BaseException as error:  # kept for the test's own thread, which raises it again
            self._desk.failed(error)
            return Answer(500, json={"error": {"message": f"a scripted function raised {error!r}"}}, close=True)

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
        wire = wire_of(answer)
        if answer.reset == "headers":
            self._send(iter([wire.head[: len(wire.head) // 2]]))
            return self._reset()
        if method == "HEAD" or not wire.may_have_body:
            self._send(iter([wire.head]))
            return True
        if wire.whole is not None:
            self._send(iter([wire.whole]))
            return True
        self._send(wire.pieces(), 0.0 if answer.drip is None else answer.drip[1])
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
            self._desk.finished()

    def _reset(self) -> bool:
        """Close with RST in place of FIN."""
        self._answered()
        on_without_linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on_without_linger)
        self.sock.close()
        return False


def shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already, or by the other side
