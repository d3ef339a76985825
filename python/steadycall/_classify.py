"""``classify``: an HTTP answer in, the judgement of the core out."""

from __future__ import annotations

import time

from . import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._records import Failure

    Value = str | bytes | int | float


def classify(
    *,
    status: int,
    headers: Mapping[str, Value] | Iterable[tuple[str, Value]] | None = None,
    body: bytes | bytearray | memoryview | str = b"",
    url: str | None = None,
    now: float | None = None,
    dialect: str = "auto",
) -> Failure | None:
    """Judge an HTTP answer as ``call`` would: what kind of failure it is, or ``None`` for a good answer.

    Args:
        status: the HTTP status.
        headers: a mapping or pairs; names in any case, numbers as their text.
        body: the body after content decoding, bytes-like or text.
        url: where it came from; tells the provider. Only its host and path are looked at.
        now: seconds since the epoch, for hints that are dates and answers without ``Date``; ``None`` is now.
        dialect: a provider's way of speaking, such as ``"openai"``; ``"auto"`` finds it from URL, headers and body.

    Returns:
        A ``Failure``, or ``None`` when the answer is good.

    Raises:
        ConfigError: a value makes no sense; it names the parameter and what is allowed.
    """
    return _native.classify(status, headers, body, url, time.time() if now is None else now, dialect)
