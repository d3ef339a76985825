"""What a client may be limited by: values, checked when they are made, that any number of clients may be given."""

from __future__ import annotations

from ._native import Limit, count, seconds
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._time import Seconds


@frozen
class ConcurrencyLimit:
    """At most ``max`` calls in flight; others wait, first come first served, ``queue`` of them at most.

    A call that waits before a retry holds no slot. Who finds the queue full ends as ``QueueFull``, and whose deadline
    passes in it as ``DeadlineExceeded(stage="queue")``.

    Args:
        max: calls in flight at once, at least 1.
        queue: calls that may wait, here and for a rate limit; 0 lets none wait.
        adaptive_from: begin with so many in flight and find the best number up to ``max``: one more for every full
            round of good answers, half as many at a 429, a 529 or a timeout; ``None`` keeps to ``max``.

    Raises:
        ConfigError: a value that makes no sense.
    """

    max: int
    queue: int
    adaptive_from: int | None
    _checked: Limit

    def __init__(self, max: int, queue: int = 1_000, *, adaptive_from: int | None = None) -> None:
        given = {"max": max, "queue": queue, "adaptive_from": adaptive_from}
        self.__dict__.update(given, _checked=Limit.concurrency(max, queue, adaptive_from))


@frozen
class RateLimit:
    """So many requests and tokens a minute, for each host, model, credential and ``partition``.

    Before a call its tokens are reserved: ``tokens=``, or an estimate - the UTF-8 bytes of its text over three, the
    output it asks for, and a flat 1,000 for each picture, sound or file sent inline. Its real usage settles the
    account, which may leave a debt that later calls wait off. A wait that the deadline cannot meet is refused at once.

    Args:
        requests_per_minute: requests a minute, at least 1; ``None`` is not limited.
        tokens_per_minute: tokens a minute, at least 1; ``None`` is not limited.
        burst: how many requests may go at once after a rest, and the same part of a minute's tokens; tokens, where
            only they are limited. ``None`` is a minute's worth.
        oversized: ``"pass"`` lets a request larger than the token bucket go when that is full; ``"refuse"`` does not.

    Raises:
        ConfigError: a value that makes no sense.
    """

    requests_per_minute: int | None
    tokens_per_minute: int | None
    burst: int | None
    oversized: str
    _checked: Limit

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        burst: int | None = None,
        *,
        oversized: str = "pass",
    ) -> None:
        checked = Limit.rate(requests_per_minute, tokens_per_minute, burst, oversized)
        self.__dict__.update(
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            burst=burst,
            oversized=oversized,
            _checked=checked,
        )


@frozen
class TokenBudget:
    """At most ``per_day`` tokens in any 24 hours, for all calls of the client together: a ceiling of one's own.

    Args:
        per_day: tokens, at least 1.
        on_spent: ``"refuse"`` ends calls that do not fit as ``Refused``; ``"wait"`` lets them wait as long as their
            deadline allows.

    Raises:
        ConfigError: a value that makes no sense.
    """

    per_day: int
    on_spent: str
    _checked: Limit

    def __init__(self, per_day: int, on_spent: str = "refuse") -> None:
        self.__dict__.update(per_day=per_day, on_spent=on_spent, _checked=Limit.ceiling(per_day, on_spent))


@frozen
class CircuitBreaker:
    """Stops calls to what is down, and lets a probe through now and then to see whether it works again.

    It opens after ``failure_threshold`` failures in a row, or when ``failure_ratio`` of at least ``minimum_calls``
    within ``window`` seconds failed. Connect failures, timeouts, 5xx and overload are failures; a 4xx is neither
    failure nor success, and a 429 is the limiter's news and opens nothing. One circuit for each host and model; faults
    of connections are counted by the host.

    Args:
        failure_threshold: failures in a row, at least 1; 5 when ``failure_ratio`` is not given.
        failure_ratio: share of failures above 0 and up to 1, in place of ``failure_threshold``.
        minimum_calls: calls within the window before the ratio counts.
        window: seconds that the ratio looks back.
        recovery_timeout: seconds it stays open before it is probed.
        half_open_probes: probes at once, and how many good ones close it.
        slow_call: seconds after which a good answer counts as a failure; ``None`` is never.

    Raises:
        ConfigError: a value that makes no sense.
    """

    failure_threshold: int | None
    failure_ratio: float | None
    minimum_calls: int
    window: Seconds
    recovery_timeout: Seconds
    half_open_probes: int
    slow_call: Seconds | None
    _checked: Limit

    def __init__(
        self,
        failure_threshold: int | None = None,
        *,
        failure_ratio: float | None = None,
        minimum_calls: int = 20,
        window: Seconds = 60.0,
        recovery_timeout: Seconds = 30.0,
        half_open_probes: int = 1,
        slow_call: Seconds | None = None,
    ) -> None:
        if failure_threshold is None and failure_ratio is None:
            failure_threshold = 5
        seconds("window", window)
        count("minimum_calls", minimum_calls)
        ratio = None if failure_ratio is None else (failure_ratio, minimum_calls, window)
        checked = Limit.breaker(failure_threshold, ratio, recovery_timeout, half_open_probes, slow_call)
        self.__dict__.update(
            failure_threshold=failure_threshold,
            failure_ratio=failure_ratio,
            minimum_calls=minimum_calls,
            window=window,
            recovery_timeout=recovery_timeout,
            half_open_probes=half_open_probes,
            slow_call=slow_call,
            _checked=checked,
        )


@frozen
class RetryBudget:
    """Retries may add so much to the load of a client: a share of its calls of late, and a small floor.

    Only failures that may be load spend it: transport faults, 5xx and overload without a hint. Waits that a server
    asked for and failed validation are free. Source: Finagle's and Envoy's retry budgets.

    Args:
        ratio: retries as a share of the calls within the window, from 0 to 1.
        floor_per_second: retries a second that are always allowed.
        window: seconds that the share looks back.
        burst: how much of the floor may be saved up.

    Raises:
        ConfigError: a value that makes no sense.
    """

    ratio: float
    floor_per_second: float
    window: Seconds
    burst: int
    _checked: Limit

    def __init__(
        self, ratio: float = 0.2, floor_per_second: float = 1.0, window: Seconds = 10.0, burst: int = 10
    ) -> None:
        checked = Limit.retries(ratio, floor_per_second, window, burst)
        self.__dict__.update(
            ratio=ratio, floor_per_second=floor_per_second, window=window, burst=burst, _checked=checked
        )
