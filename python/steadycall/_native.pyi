"""The Rust half. Checked against the module itself by stubtest."""

from collections.abc import Awaitable
from typing import Any, Final, Literal, final

from ._call import Headers
from ._kinds import StopReason
from ._records import AttemptRecord, Failure
from ._time import Seconds

__all__ = [
    "PENDING",
    "Backoff",
    "Bridge",
    "CheckedPolicy",
    "Exchange",
    "Fault",
    "HttpCall",
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
    def decide(self) -> float: ...
    def slept(self, given: object = None) -> None: ...
    def abort(self) -> None: ...

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
    def __new__(cls, policy: CheckedPolicy, around: Any, now: Any, draw: Any, leaf: bool) -> Run: ...
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
    ) -> float | None: ...
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
