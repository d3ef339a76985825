"""A real HTTP/1.1 server on the loopback interface that answers by script and misbehaves on purpose.

Here are the scripts, the records and the life of the server; how an answer goes over the wire is ``connection.py``'s,
and what a provider's body looks like is ``answers.py``'s.
"""

import os
import socket
import threading
import time
import types
from collections.abc import Callable, Iterable
from typing import Self

from steadycall.testing.connection import Connection, shut
from steadycall.testing.message import Answer, Request, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl


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
        self._open: dict[int, tuple[Connection, threading.Thread]] = {}
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
        import asyncio  # running already, or nobody could await this; a test of sync code is spared it

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
            shut(sock)
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
                connection = Connection(_Desk(self), sock, number)
                thread = threading.Thread(target=connection.run, name=f"FakeServer-{number}", daemon=True)
                self._open[number] = (connection, thread)
                self._changed.notify_all()
            thread.start()


class _Desk:
    """The server as its connections see it: what they report, kept off the public class."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.tls = server._tls

    def received(self, request: Request) -> Step | None:
        with self._server._changed:
            self._server.requests.append(request)
            self._server.in_flight += 1
            self._server._changed.notify_all()
            script = self._server._scripts.get(request.path) or self._server._scripts.get("*")
            return None if script is None else script.next()

    def finished(self, *, aborted: bool = False) -> None:
        with self._server._changed:
            self._server.in_flight -= 1
            # A server that closes cuts off its clients, not the other way round.
            self._server.aborted += aborted and not self._server._closed
            self._server._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        self._server.errors.append(error)

    def disconnected(self, number: int) -> None:
        with self._server._changed:
            del self._server._open[number]
            self._server._changed.notify_all()


class _Script:
    def __init__(self, steps: tuple[Step, ...], then: Step) -> None:
        self._steps = iter(steps)
        self._then = then

    def next(self) -> Step:
        return next(self._steps, self._then)
