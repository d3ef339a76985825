"""``Reply``: an answer with what it took to get it; every part is made when it is asked for."""

from __future__ import annotations

from . import _usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from email.message import Message
    from typing import Any

    from ._native import Answered
    from ._records import AttemptRecord
    from ._route import Route


class Reply:
    """An answer of a ``Client``: what came, who sent it, and what it took.

    Made by ``Client.call`` and its siblings; it pickles and copies.
    """

    __slots__ = ("_facts", "_json", "_route")

    def __init__(self, facts: Answered | Kept, json: Any, route: Route) -> None:
        self._facts = facts
        self._json = json
        self._route = route

    @property
    def json(self) -> Any:
        """The parsed answer, or what ``validate`` gave in its place; ``None`` for an answer that is no JSON."""
        return self._json

    @property
    def content(self) -> bytes:
        """The body as bytes, after content decoding."""
        return self._facts.content

    @property
    def text(self) -> str:
        """The body as text, in the character set its content type names, UTF-8 without one."""
        charset = self.headers.get_content_charset("utf-8")
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._facts.status

    @property
    def headers(self) -> Message:
        """The headers, case-insensitive, as ``email.message.Message``."""
        from email.message import Message  # 20 ms of import, paid by who reads headers

        message = Message()
        for name, value in self._facts.header_pairs:
            message[name] = value
        return message

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """Every attempt in order, those of other routes included; the last one brought this answer."""
        return self._facts.attempts

    @property
    def requests(self) -> int:
        """HTTP requests sent, replays included."""
        return self._facts.requests

    @property
    def elapsed(self) -> float:
        """Seconds from the start of the call to its answer: queues, attempts, waits and validation."""
        return self._facts.elapsed

    @property
    def request_id(self) -> str | None:
        """The provider's id for the request."""
        return self._facts.request_id

    @property
    def usage(self) -> dict[str, int] | None:
        """``{"input_tokens", "output_tokens", "total_tokens"}`` of this answer; ``None`` when it tells none."""
        return _usage.tokens(self._facts.paid[-1])

    @property
    def total_usage(self) -> dict[str, int] | None:
        """The same, summed over all attempts: answers that failed their validation were billed too."""
        return _usage.total(list(self._facts.paid))

    @property
    def route(self) -> Route:
        """Which route answered: the client's own, or one of its fallbacks."""
        return self._route

    def __repr__(self) -> str:
        count = len(self._facts.attempts)
        tries = "1 attempt" if count == 1 else f"{count} attempts"
        return (
            f"<Reply {self.status} from {self._facts.host}: {len(self.content)} bytes, {tries}, {self.elapsed:.3g} s>"
        )

    def __reduce__(self) -> Any:
        return Reply, (Kept(self._facts), self._json, self._route)


class Kept:
    """The facts of a reply that went through pickle or copy."""

    NAMES = ("content", "status", "header_pairs", "attempts", "requests", "elapsed", "request_id", "paid", "host")

    content: bytes
    status: int
    header_pairs: tuple[tuple[str, str], ...]
    attempts: tuple[AttemptRecord, ...]
    requests: int
    elapsed: float
    request_id: str | None
    paid: tuple[Any, ...]
    host: str

    def __init__(self, facts: Answered | Kept) -> None:
        self.__dict__.update({name: getattr(facts, name) for name in self.NAMES})
