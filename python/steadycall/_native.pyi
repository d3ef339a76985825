"""The Rust half. Checked against the module itself by stubtest."""

from collections.abc import Awaitable
from typing import Any, Final, final

from ._call import Headers
from ._records import Failure
from ._time import Seconds

__all__ = [
    "Bridge",
    "Exchange",
    "Fault",
    "HttpCall",
    "PENDING",
    "StreamOpening",
    "__version__",
    "_dumps",
    "_loads",
    "classify",
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

def seconds(field: str, value: Seconds) -> float: ...
def seconds_or_none(field: str, value: Seconds | None) -> float | None: ...
def classify(status: Any, headers: Any, body: Any, url: Any, now: Any, dialect: Any) -> Failure | None: ...
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
