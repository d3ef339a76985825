"""``call`` and ``acall``: one POST of JSON that ends well.

Both fronts are the same dozen lines: the core decides, the native call sends, and what is left here is what only
Python can do - ask for headers, sleep, and be cancelled.
"""

from __future__ import annotations

import sys
import time

from . import _usage, _watch  # noqa: F401  # for the native call: nothing is loaded during one
from ._hooks import check_sleep, default_asleep, default_sleep, draws
from ._native import PENDING, HttpCall
from ._scope import around
from ._time import Deadline, Timeout, read_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from os import PathLike
    from typing import Any

    from ._hooks import Rng, Sleep
    from ._records import AttemptRecord, CallRecord
    from ._time import Clock, Seconds

    Headers = Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""The default of ``max_response_bytes``: 64 MiB, after content decoding."""


def call(
    url: str,
    payload: Any,
    *,
    tries: int = 5,
    base: Seconds = 1.0,
    cap: Seconds = 30.0,
    max_wait: Seconds = 60.0,
    sleep: Sleep | None = None,
    headers: Headers | Callable[[], Headers] | None = None,
    timeout: Seconds | Timeout | None = 30.0,
    attempt_timeout: Seconds | None = None,
    deadline: Seconds | Deadline | None = None,
    retry_status: Iterable[int] | None = None,
    retry_transport: bool = True,
    retry_maybe_processed: bool = True,
    idempotency_key: str | None = None,
    on_retry: Callable[[AttemptRecord], Any] | None = None,
    on_end: Callable[[CallRecord], Any] | None = None,
    rng: Rng | None = None,
    clock: Clock | None = None,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    proxy: str | None = None,
    ca_bundle: str | PathLike[str] | None = None,
) -> Any:
    """POST ``payload`` as JSON to ``url`` and return the parsed JSON answer, retrying what a wait can fix.

    Args:
        url: http or https, without credentials in it.
        payload: whatever ``json.dumps`` takes; ``bytes`` go as they are.
        tries: attempts in all, at least 1.
        base: ceiling of the first wait in seconds; each wait is random in [0, ceiling), the ceiling doubles.
        cap: ceiling of every such wait in seconds.
        max_wait: longest wait in seconds that the server may ask for; a longer one ends the call now.
        sleep: called once per retry with the wait in seconds; ``None`` is ``time.sleep``.
        headers: a mapping or pairs, or a callable that gives them, asked before each attempt.
        timeout: seconds for each I/O phase, a ``Timeout`` that tells them apart, or ``None`` for no limit.
        attempt_timeout: seconds one attempt may take in all; ``None`` is not limited.
        deadline: seconds for everything, waits included, or a ``Deadline``; ``None`` is not limited.
        retry_status: the statuses to retry, in place of the built-in table; body rules still apply.
        retry_transport: whether connection faults are retried.
        retry_maybe_processed: whether a request that may have reached the model is sent again.
        idempotency_key: visible ASCII, sent as ``Idempotency-Key``, the same on every attempt.
        on_retry: told each failed attempt that is followed by another, as an ``AttemptRecord``, before the wait; a
            plain callable, in ``acall`` too.
        on_end: told the whole call once, as a ``CallRecord``; a plain callable, in ``acall`` too.
        rng: a seed or a ``random.Random`` for the waits.
        clock: an object with ``now()`` or a callable, in seconds; ``None`` is the monotonic clock.
        max_response_bytes: most bytes of answer after content decoding.
        proxy: URL of an http or https proxy; ``None`` uses the environment's, less what ``NO_PROXY`` names.
        ca_bundle: a PEM file trusted instead of the system's roots; ``None`` honours
            ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.

    Returns:
        The answer's JSON, the same objects as ``json.load`` gives.

    Raises:
        HTTPStatusError: the provider's error, a ``urllib.error.HTTPError``.
        TransportError: no answer came, or not all of it; a ``urllib.error.URLError``.
        ResponseError: a 2xx that is no answer, a ``ValueError``.
        DeadlineExceeded: the deadline leaves no room, a ``TimeoutError``.
        ConfigError: a value makes no sense; nothing was sent.
    """
    if sleep is not None:
        check_sleep(sleep, may_be_awaited=False)
    make_headers = headers if callable(headers) else None
    # The parameters of `HttpCall` in order; gathered in tuples they would cost a microsecond.
    # fmt: off
    one = HttpCall(
        url, payload, tries, base, cap, max_wait, None if make_headers else headers, timeout, attempt_timeout,
        deadline, retry_status, retry_transport, retry_maybe_processed, idempotency_key, on_retry, on_end,
        None if rng is None else draws(rng), None if clock is None else read_clock(clock),
        max_response_bytes, proxy, ca_bundle, around(),
    )
    # fmt: on
    send = one.attempt if "gevent.monkey" not in sys.modules else _cooperative(one)
    while True:
        if make_headers is not None:
            one.set_headers(make_headers())
        answer = send()
        if answer is not PENDING:
            return answer
        wait = one.decide()
        one.slept((default_sleep() if sleep is None else sleep)(wait))


async def acall(
    url: str,
    payload: Any,
    *,
    tries: int = 5,
    base: Seconds = 1.0,
    cap: Seconds = 30.0,
    max_wait: Seconds = 60.0,
    sleep: Sleep | None = None,
    headers: Headers | Callable[[], Headers | Awaitable[Headers]] | None = None,
    timeout: Seconds | Timeout | None = 30.0,
    attempt_timeout: Seconds | None = None,
    deadline: Seconds | Deadline | None = None,
    retry_status: Iterable[int] | None = None,
    retry_transport: bool = True,
    retry_maybe_processed: bool = True,
    idempotency_key: str | None = None,
    on_retry: Callable[[AttemptRecord], Any] | None = None,
    on_end: Callable[[CallRecord], Any] | None = None,
    rng: Rng | None = None,
    clock: Clock | None = None,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    proxy: str | None = None,
    ca_bundle: str | PathLike[str] | None = None,
) -> Any:
    """As ``call``, for asyncio: cancelling it closes its socket.

    Takes the same arguments. ``sleep`` and a ``headers`` callable may be plain or coroutine functions;
    ``time.sleep`` as ``sleep`` means ``asyncio.sleep``. trio is not supported.
    """
    if sleep is not None:
        check_sleep(sleep, may_be_awaited=True)
    make_headers = headers if callable(headers) else None
    # The parameters of `HttpCall` in order; gathered in tuples they would cost a microsecond.
    # fmt: off
    one = HttpCall(
        url, payload, tries, base, cap, max_wait, None if make_headers else headers, timeout, attempt_timeout,
        deadline, retry_status, retry_transport, retry_maybe_processed, idempotency_key, on_retry, on_end,
        None if rng is None else draws(rng), None if clock is None else read_clock(clock),
        max_response_bytes, proxy, ca_bundle, around(),
    )
    # fmt: on
    try:
        while True:
            if make_headers is not None:
                made: Any = make_headers()
                one.set_headers(await made if hasattr(made, "__await__") else made)
            answer = await one.start()
            if answer is PENDING:
                answer = one.collect()
            if answer is not PENDING:
                return answer
            wait = one.decide()
            pause: Any = (default_asleep() if sleep is None or sleep is time.sleep else sleep)(wait)
            if pause is not None and hasattr(pause, "__await__"):
                await pause
            one.slept()
    except BaseException:
        one.abort()
        raise


def _cooperative(one: HttpCall) -> Callable[[], Any]:
    """Under gevent's monkey-patching the attempt runs in the hub's thread pool, so that other greenlets go on."""
    from ._gevent import cooperative

    return cooperative(one.attempt, one.abort)
