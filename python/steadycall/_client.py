"""``Client`` and ``AsyncClient``: one provider's calls for the whole life of a service, behind common gates."""

from __future__ import annotations

from ._carrier import finish
from ._client_base import Base
from ._client_stream import open_stream
from ._errors import Closed
from ._front import Awaiting
from ._stream import AsyncStream, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ._call import Headers
    from ._reply import Reply
    from ._stream import StreamTimeout
    from ._time import Deadline, Seconds


class Client(Base):
    """One provider's calls, for the whole life of a service: a pool of connections, and gates that all calls share.

    ::

        with steadycall.Client("https://api.openai.com/v1", headers={"Authorization": f"Bearer {key}"}) as client:
            reply = client.call("/chat/completions", {"model": "gpt-5", "messages": [...]}, deadline=30)
            print(reply.json["choices"][0]["message"]["content"], reply.usage)

    It may be shared by any number of threads, and used after a fork, where its gates begin afresh. Closing it refuses
    further calls; those in flight end by themselves. Connections are the process's own, shared by clients with equal
    proxy and certificates, and close when nobody needs them.

    Args:
        base_url: http or https, without credentials; paths are appended to it. ``None`` takes whole URLs as paths.
        policy: how failures are retried; ``None`` is ``Policy(hint_jitter=0.1)``. What ``Policy.bind`` gave lends its
            hooks too.
        concurrency: a ``ConcurrencyLimit``, or its ``max``; ``None`` is not limited.
        rate: a ``RateLimit``; ``None`` is not limited. Pauses that providers ask for are kept to in any case.
        token_budget: a ``TokenBudget``; ``None`` is not limited.
        breaker: a ``CircuitBreaker``; ``None`` has none.
        retry_budget: a ``RetryBudget``; ``None`` lets every call retry as its policy says.
        timeout: seconds for each I/O phase, a ``Timeout``, or ``None`` for no limit.
        headers: sent with every call; a mapping, pairs, or a callable asked before each attempt.
        stream_timeout: how long streams may let their reader wait.
        fallback: further ``Route``\\ s, tried in order when the one before gave up.
        max_response_bytes: most bytes of answer after content decoding.
        proxy: URL of an http or https proxy; ``None`` uses the environment's, less what ``NO_PROXY`` names.
        ca_bundle: a PEM file trusted instead of the system's roots.
        on_retry: told each failed attempt that is followed by another, as an ``AttemptRecord``.
        on_end: told each call once, as a ``CallRecord``.
        on_event: told every step, as an ``Event``.
        sleep: does the waiting whose end is known, in seconds; ``None`` is ``time.sleep`` between attempts and a timer
            at the gates.
        clock: an object with ``now()`` or a callable, in seconds; ``None`` is the monotonic clock.
        rng: a seed or a ``random.Random`` for the waits.

    Raises:
        ConfigError: a value that makes no sense.
    """

    def call(
        self,
        path: str,
        payload: Any,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """POST ``payload`` as JSON and return the answer, retrying what a wait can fix.

        Args:
            path: appended to ``base_url``, with a query if there is one.
            payload: whatever ``json.dumps`` takes; ``bytes`` go as they are.
            deadline: seconds for everything - queues, attempts, waits, validation -, or a ``Deadline``; ``None``
                leaves it to the policy.
            validate: takes the parsed answer. ``None`` or ``True`` accepts it; ``False``, a ``ValueError`` or a
                pydantic error asks for another; ``Reject`` ends the call; any other value takes the answer's place.
            tokens: what the call will cost, where the estimate would be wrong; see ``RateLimit``.
            partition: keeps limits apart for calls with the same host, model and key: a tenant, a job.
            idempotency_key: visible ASCII, sent as ``Idempotency-Key``, the same on every attempt.
            headers: laid over the client's.

        Raises:
            HTTPStatusError: the provider's error.
            TransportError: no answer came, or not all of it.
            ResponseError: a 2xx that is no answer, or one that failed its validation.
            DeadlineExceeded: the deadline leaves no room; ``stage="queue"`` when nothing was sent.
            CircuitOpen: the circuit breaker is open; nothing was sent.
            QueueFull: too many calls wait; nothing was sent.
            Refused: a pause longer than ``max_wait``, or a limit that this call never fits; nothing was sent.
            Closed: the client was closed.
            ConfigError: a value that makes no sense; nothing was sent.
        """
        options = (deadline, tokens, partition, idempotency_key, headers)
        return finish(self._call("POST", path, (payload,), validate, *options))

    def get(
        self,
        path: str,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        partition: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """GET ``path``: a list of models, a job to poll. Arguments and errors as for ``call``.

        Any 2xx is an answer, also one that tells of a failure or is no JSON (``reply.json`` is ``None`` then);
        redirects are followed within the origin.
        """
        return self.request("GET", path, deadline=deadline, validate=validate, partition=partition, headers=headers)

    def request(
        self,
        method: str,
        path: str,
        payload: Any = None,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """Any other method: ``PUT``, ``PATCH``, ``DELETE``. Without a ``payload`` no body is sent; else as ``call``."""
        options = (deadline, tokens, partition, idempotency_key, headers)
        return finish(self._call(method, path, None if payload is None else (payload,), validate, *options))

    def stream(
        self,
        path: str,
        payload: Any,
        *,
        timeout: StreamTimeout | None = None,
        deadline: Seconds | Deadline | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> Stream:
        """POST ``payload`` and give the events of the answer as they come: ``with client.stream(...) as events``.

        Whatever fails before the first content is tried again unseen; after it, nothing is. The payload itself asks
        for a stream (``"stream": True``). Other arguments are those of ``call``.

        Args:
            path: appended to ``base_url``, with a query if there is one.
            payload: whatever ``json.dumps`` takes; ``bytes`` go as they are.
            timeout: a ``StreamTimeout``; ``None`` is the client's ``stream_timeout``.

        Raises:
            CallError: as ``call``, when the block is entered.
            StreamInterrupted: the answer broke after its first content, while it was read.
        """
        return open_stream(
            self,
            Stream,
            path,
            payload,
            timeout=timeout,
            deadline=deadline,
            tokens=tokens,
            partition=partition,
            idempotency_key=idempotency_key,
            headers=headers,
        )

    def close(self) -> None:
        """Refuse further calls. Those in flight go on to their end."""
        self._close()

    def __enter__(self) -> Self:
        if self._closed:
            raise Closed("this client was closed; make another one")
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class AsyncClient(Base):
    """``Client`` for asyncio: the same arguments and the same methods, to be awaited.

    One client serves any number of event loops. Cancelling a call closes its socket, or takes it out of the queue.
    ``validate``, ``sleep`` and a ``headers`` callable may be coroutine functions; observers are plain callables.
    """

    _front_class = Awaiting

    async def call(
        self,
        path: str,
        payload: Any,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """As ``Client.call``."""
        return await self._call(
            "POST", path, (payload,), validate, deadline, tokens, partition, idempotency_key, headers
        )

    async def get(
        self,
        path: str,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        partition: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """As ``Client.get``."""
        options = {"deadline": deadline, "validate": validate, "partition": partition, "headers": headers}
        return await self.request("GET", path, **options)  # type: ignore[arg-type]  # as they were given

    async def request(
        self,
        method: str,
        path: str,
        payload: Any = None,
        *,
        deadline: Seconds | Deadline | None = None,
        validate: Callable[[Any], Any] | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> Reply:
        """As ``Client.request``."""
        options = (deadline, tokens, partition, idempotency_key, headers)
        return await self._call(method, path, None if payload is None else (payload,), validate, *options)

    def stream(
        self,
        path: str,
        payload: Any,
        *,
        timeout: StreamTimeout | None = None,
        deadline: Seconds | Deadline | None = None,
        tokens: int | None = None,
        partition: str | None = None,
        idempotency_key: str | None = None,
        headers: Headers | None = None,
    ) -> AsyncStream:
        """As ``Client.stream``, for ``async with`` and ``async for``."""
        return open_stream(
            self,
            AsyncStream,
            path,
            payload,
            timeout=timeout,
            deadline=deadline,
            tokens=tokens,
            partition=partition,
            idempotency_key=idempotency_key,
            headers=headers,
        )

    async def aclose(self) -> None:
        """Refuse further calls. Those in flight go on to their end."""
        self._close()

    async def __aenter__(self) -> Self:
        if self._closed:
            raise Closed("this client was closed; make another one")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()
