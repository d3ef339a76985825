"""The Rust half. Checked against the module itself by stubtest."""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, final

from ._call import Headers
from ._records import AttemptRecord, CallRecord, Failure
from ._time import Deadline, Seconds, Timeout

__version__: Final[str]
PENDING: Final[object]

@final
class HttpCall:
    def __new__(
        cls,
        url: str,
        payload: Any,
        tries: int,
        base: Seconds,
        cap: Seconds,
        max_wait: Seconds,
        headers: Headers | None,
        timeout: Seconds | Timeout | None,
        attempt_timeout: Seconds | None,
        deadline: Seconds | Deadline | None,
        retry_status: Iterable[int] | None,
        retry_transport: bool,
        retry_maybe_processed: bool,
        idempotency_key: str | None,
        on_retry: Callable[[AttemptRecord], Any] | None,
        on_end: Callable[[CallRecord], Any] | None,
        draw: Callable[[], float] | None,
        clock: Callable[[], float] | None,
        max_response_bytes: int,
        proxy: str | None,
        ca_bundle: str | PathLike[str] | None,
    ) -> HttpCall: ...
    def set_headers(self, headers: Headers) -> None: ...
    def attempt(self) -> Any: ...
    def start(self) -> Any: ...
    def collect(self) -> Any: ...
    def decide(self) -> float: ...
    def slept(self) -> None: ...
    def abort(self) -> None: ...

@final
class Bridge:
    def drain(self) -> None: ...

def seconds(field: str, value: Seconds) -> float: ...
def classify(
    status: int,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None,
    body: bytes | str,
    url: str | None,
    now: float,
    dialect: str,
) -> Failure | None: ...
def _dumps(obj: Any) -> bytes: ...
def _loads(body: bytes) -> Any: ...
