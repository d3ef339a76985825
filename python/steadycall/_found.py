"""What an attempt of a transport found: a good answer, or a failure with what there is to show of it."""

from __future__ import annotations

from ._native import _loads
from ._usage import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._carrier import Answer, Lost
    from ._family import Pairs
    from ._records import Failure

    Shown = tuple[int, bytes] | None

REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"apim-request-id", b"x-amzn-trace-id")


class Good:
    """An answer for the client: its head, what was read of it, and the rest."""

    def __init__(self, answer: Answer, held: list[bytes], *, whole: bool, has_events: bool = False) -> None:
        self.answer = answer
        self.held = held
        self.whole = whole
        self.has_events = has_events
        """Whether it is a stream whose events tell how it ends."""


class Bad:
    """A failed attempt, with what there is to show of it in the end."""

    def __init__(
        self,
        judged: Failure,
        *,
        answer: Answer | None = None,
        body: bytes = b"",
        shown: Shown = None,
        lost: Lost | None = None,
    ) -> None:
        self.judged = judged
        self.answer = answer
        self.body = body
        self.shown = shown
        self.lost = lost


def says_json(headers: Pairs) -> bool:
    """Whether the content type is JSON, one document of it."""
    found = next((value for name, value in headers if name.lower() == b"content-type"), b"").lower()
    kind = found.partition(b";")[0].strip()
    return kind == b"application/json" or (kind.endswith(b"+json") and kind != b"application/stream+json")


def usage_of(found: Good) -> dict[str, int] | None:
    """The tokens an answer says it cost."""
    if not found.whole:
        return None
    try:
        return tokens(_loads(b"".join(found.held)))
    except ValueError:
        return None
