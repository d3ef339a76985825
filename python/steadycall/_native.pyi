"""The Rust half. Checked against the module itself by stubtest."""

from typing import Any, Final, final

from ._call import Headers
from ._records import Failure
from ._time import Seconds

__all__ = ["PENDING", "Bridge", "HttpCall", "__version__", "_dumps", "_loads", "classify", "failure", "seconds", "seconds_or_none"]

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
