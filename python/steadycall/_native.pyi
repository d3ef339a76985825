"""The Rust half. Checked against the module itself by stubtest."""

from collections.abc import Awaitable
from typing import Any, Final, Literal, final

from ._call import Headers
from ._kinds import StopReason
from ._records import AttemptRecord, Failure
from ._time import Seconds

__all__ = [
    "PENDING",
    "Answered",
    "Backoff",
    "Barred",
    "Bridge",
    "Caller",
    "CheckedPolicy",
    "Exchange",
    "Fault",
    "Gates",
    "HttpCall",
    "Limit",
    "Passing",
    "Run",
    "Starter",
    "StreamOpening",
    "__version__",
    "_dumps",
    "_loads",
    "callback",
    "classify",
    "count",
    "failure",
    "gives_away",
    "judge",
    "seconds",
    "seconds_or_none",
]

__version__: Final[str]
PENDING: Final[object]

@final
class HttpCall:
    # The parameters of `call`, in order. Each may be anything: what makes no sense is refused as ConfigError here.
    def __new__(
        cls,
        url: Any,
        payload: Any,
        tries: Any,
        base: Any,
        cap: Any,
        max_wait: Any,
        headers: Any,
        timeout: Any,
        attempt_timeout: Any,
        deadline: Any,
        retry_status: Any,
        retry_transport: Any,
        retry_maybe_processed: Any,
        idempotency_key: Any,
        on_retry: Any,
        on_end: Any,
        draw: Any,
        clock: Any,
        max_response_bytes: Any,
        proxy: Any,
        ca_bundle: Any,
        around: Any,
    ) -> HttpCall: ...
    def set_headers(self, headers: Headers) -> None: ...
    def attempt(self) -> Any: ...
    def start(self) -> Any: ...
    def collect(self) -> Any: ...
    # Seconds to wait; `None`, for calls of a client only, to ask again at once.
    def decide(self) -> Any: ...
    def slept(self, given: object = None) -> None: ...
    def abort(self) -> None: ...
    # For the calls of a client.
    @property
    def begins(self) -> bool: ...
    def accept(self, value: Any) -> None: ...
    def reject(self, failure: Failure, error: BaseException) -> None: ...
    @property
    def failed(self) -> bool: ...
    @property
    def failure(self) -> Failure | None: ...
    def error(self) -> BaseException: ...
    def reconsider(self, failure: Failure) -> None: ...
    def answer(self) -> Answered: ...
    def allow_routes(self, count: int) -> None: ...
    @property
    def rerouting(self) -> bool: ...
    def reroute(self, other: HttpCall) -> None: ...

@final
class Answered:
    @property
    def status(self) -> int: ...
    @property
    def content(self) -> bytes: ...
    @property
    def header_pairs(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def attempts(self) -> tuple[AttemptRecord, ...]: ...
    @property
    def requests(self) -> int: ...
    @property
    def elapsed(self) -> float: ...
    @property
    def request_id(self) -> str | None: ...
    @property
    def paid(self) -> tuple[Any, ...]: ...
    @property
    def host(self) -> str: ...

@final
class Limit:
    @staticmethod
    def concurrency(max: Any, queue: Any, adaptive_from: Any) -> Limit: ...
    @staticmethod
    def rate(requests_per_minute: Any, tokens_per_minute: Any, burst: Any, oversized: str) -> Limit: ...
    @staticmethod
    def ceiling(per_day: Any, on_spent: str) -> Limit: ...
    @staticmethod
    def breaker(
        failure_threshold: Any,
        ratio: tuple[Any, Any, Any] | None,
        recovery_timeout: Any,
        half_open_probes: Any,
        slow_call: Any,
    ) -> Limit: ...
    @staticmethod
    def retries(ratio: Any, floor_per_second: Any, window: Any, burst: Any) -> Limit: ...

@final
class Gates:
    def __new__(cls, limits: list[Limit], policy: CheckedPolicy, now: Any) -> Gates: ...
    @property
    def in_flight(self) -> int | None: ...
    @property
    def waiting(self) -> int: ...
    @property
    def counts_tokens(self) -> bool: ...
    @property
    def has_breaker(self) -> bool: ...
    def circuits(self) -> dict[str, tuple[str, float | None]]: ...
    def hold(self, key: str, how: str) -> None: ...
    def observe_call(self) -> None: ...
    def approach(
        self,
        host: str,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        partition: str,
        tokens: int | None,
        left: float | None,
        max_wait: float,
        lends_sleep: bool,
    ) -> Passing: ...

@final
class Passing:
    def look(self) -> float | None: ...
    def slept(self, given: object = None) -> None: ...
    def go(self) -> bool: ...
    def ago(self) -> Awaitable[bool] | None: ...
    def leave_slot(self) -> None: ...
    def record(
        self,
        failure: Failure | None,
        cut_short: bool,
        used: int | None,
        headers: list[tuple[bytes, bytes]] | None,
        url: str,
        draw: Any,
    ) -> list[tuple[str, str]]: ...
    def give_up(self) -> None: ...

@final
class Caller:
    # The settings of a client, in order; unchecked as above.
    def __new__(
        cls,
        gates: Gates,
        policy: CheckedPolicy,
        headers: Any,
        timeout: Any,
        max_response_bytes: Any,
        proxy: Any,
        ca_bundle: Any,
        on_retry: Any,
        on_end: Any,
        on_event: Any,
        draw: Any,
    ) -> Caller: ...
    def begin(
        self,
        method: str,
        url: Any,
        payload: tuple[Any] | None,
        deadline: Any,
        tokens: Any,
        partition: Any,
        idempotency_key: Any,
        headers: Any,
        around: Any,
        validates: bool,
        lends_sleep: bool,
    ) -> HttpCall: ...

@final
class Bridge:
    def drain(self) -> None: ...

@final
class Backoff:
    @staticmethod
    def full_jitter(base: Seconds, cap: Seconds) -> Backoff: ...
    @staticmethod
    def exponential(base: Seconds, cap: Seconds, jitter: Literal["none", "equal", "full"] = "none") -> Backoff: ...
    @staticmethod
    def fixed(seconds: Seconds) -> Backoff: ...
    @staticmethod
    def none() -> Backoff: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class CheckedPolicy:
    # The fields of `Policy` that the core knows, in order; unchecked as above.
    def __new__(
        cls,
        tries: Any,
        base: Any,
        cap: Any,
        max_wait: Any,
        deadline: Any,
        attempt_timeout: Any,
        min_attempt: Any,
        backoffs: list[Backoff | None],
        validation_tries: Any,
        max_requests: Any,
        hint_jitter: Any,
        retry_status: Any,
        retry_transport: Any,
        retry_maybe_processed: Any,
    ) -> CheckedPolicy: ...
    def worst_case(self, chains: int, hints: bool) -> tuple[float | None, int, str | None]: ...
    def max_attempt_timeout(self, within: float, chains: int) -> float: ...

@final
class Starter:
    def __new__(cls, policy: CheckedPolicy, now: Any, draw: Any) -> Starter: ...
    def alone(self) -> Run: ...
    def within(self, around: Any) -> Run: ...

@final
class Run:
    def __new__(
        cls, policy: CheckedPolicy, around: Any, now: Any, draw: Any, leaf: bool, gates: Gates | None = None
    ) -> Run: ...
    def begin(self) -> bool: ...
    def failed(
        self,
        failure: Failure,
        *,
        request_id: str | None = None,
        received: int = 0,
        fully_sent: bool = False,
        replays: int = 0,
        given_up_below: bool = False,
        passing: Passing | None = None,
    ) -> float | None: ...
    def admitted(self) -> None: ...
    def barred(self, stop: str, why: str, wait: float | None) -> None: ...
    def answered(
        self,
        *,
        status: int | None = None,
        request_id: str | None = None,
        received: int = 0,
        replays: int = 0,
        late: bool = False,
    ) -> bool: ...
    def slept(self) -> None: ...
    def end(self) -> None: ...
    def gave_up(self, error: BaseException) -> None: ...
    def spend(self) -> bool: ...
    def refund(self) -> None: ...
    def left(self) -> int | None: ...
    def remaining(self) -> float | None: ...
    @property
    def given_up(self) -> tuple[BaseException, ...]: ...
    @property
    def around(self) -> Any: ...
    @property
    def number(self) -> int: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def deadline_left(self) -> float | None: ...
    @property
    def stop_reason(self) -> StopReason | None: ...
    @property
    def stage(self) -> str | None: ...
    @property
    def why(self) -> str: ...
    @property
    def barrier_wait(self) -> float | None: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def attempts(self) -> tuple[AttemptRecord, ...]: ...
    @property
    def sent(self) -> str: ...
    @property
    def elapsed(self) -> float: ...
    @property
    def requests(self) -> int: ...

def seconds(field: str, value: Seconds) -> float: ...
def seconds_or_none(field: str, value: Seconds | None) -> float | None: ...
def count(field: str, value: int) -> int: ...
def callback(field: str, value: Any) -> Any: ...
def classify(
    status: Any, headers: Any, body: Any, url: Any, now: Any, dialect: Any, policy: CheckedPolicy | None = None
) -> Failure | None: ...
def failure(reason: str, sent: str) -> Failure: ...
def _dumps(obj: Any) -> bytes: ...
def _loads(body: bytes) -> Any: ...

class Barred(Exception):
    # (stop_reason, stage, seconds to wait, why)
    args: tuple[StopReason, str | None, float | None, str]

class Fault(Exception):
    # (reason, sent, phase, detail, fully_sent, replays, partial)
    args: tuple[str, str, str | None, str, bool, int, bytes]

@final
class Exchange:
    # Headers are pairs, without those that speak of the connection or of the body's length.
    def __new__(
        cls, method: str, url: Any, headers: Any, body: bytes, timeout: Any, proxy: Any, ca_bundle: Any
    ) -> Exchange: ...
    @property
    def is_over(self) -> bool: ...
    # Status, header pairs, HTTP version, replays.
    def open(self, limit: float | None = None) -> tuple[int, list[tuple[bytes, bytes]], str, int]: ...
    def read(self, least: int = 1) -> bytes: ...
    def aopen(self, limit: float | None = None) -> Awaitable[tuple[int, list[tuple[bytes, bytes]], str, int]]: ...
    def aread(self, least: int = 1) -> Awaitable[bytes]: ...
    def close(self) -> None: ...

@final
class StreamOpening:
    @staticmethod
    def of(
        status: int, headers: list[tuple[bytes, bytes]], url: str, now: float, statuses: set[int] | None = None
    ) -> StreamOpening | None: ...
    # None to hold back, True to give out, or what failed, as from `judge`.
    def feed(self, bytes: bytes) -> Any: ...
    def end(self) -> Any: ...

# The failure, and of an error inside a 2xx the status and body to show it with.
def judge(
    status: int,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    url: str,
    now: float,
    statuses: set[int] | None = None,
) -> tuple[Failure, tuple[int, bytes] | None] | None: ...
def gives_away(text: str, headers: list[tuple[bytes, bytes]], url: str) -> bool: ...
