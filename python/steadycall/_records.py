"""What a caller may learn about a call: frozen records, free of keys, query strings, prompts and bodies."""

from __future__ import annotations

from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from ._kinds import FailureKind, StopReason


@frozen
class Hint:
    """A wait the server asked for."""

    seconds: float
    """Greater than 0; infinite when the server wrote more digits than a number can hold."""
    source: str
    """Where it was said, for example ``"Retry-After"`` or ``"RetryInfo"``."""


@frozen
class Failure:
    """One failed attempt, judged; what ``classify`` returns."""

    kind: FailureKind
    """What kind of failure it is."""
    retryable: bool
    """Whether another attempt may help."""
    status: int | None
    """The HTTP status, when there was an answer."""
    provider_code: str | None
    """The provider's own code for the error."""
    hint: Hint | None
    """The wait the server asked for."""
    sent: str
    """``"no"``, or ``"maybe"``: the request may have reached the model, and been billed."""
    reason: str
    """Why it is judged so, one line in plain words."""
    dialect: str
    """Whose way of speaking was recognised, for example ``"openai"``; ``"generic"`` for none."""


@frozen
class AttemptRecord:
    """One attempt: what came of it and how long it took."""

    number: int
    """1 for the first attempt."""
    status: int | None
    """The HTTP status, when an answer came."""
    kind: FailureKind | None
    """What kind of failure it was; ``None`` for a good answer."""
    provider_code: str | None
    """The provider's own code for the error."""
    hint: float | None
    """Seconds the server asked to wait."""
    hint_source: str | None
    """Where it asked for them."""
    wait: float | None
    """Seconds waited after this attempt; ``None`` when no attempt followed."""
    elapsed: float
    """Seconds it took."""
    request_id: str | None
    """The server's id for the request."""
    sent: str
    """``"no"``, or ``"maybe"``: the request may have reached the model, and been billed."""
    received: int
    """Body bytes received, after content decoding."""
    delivered: bool
    """Whether its answer was given to the caller."""
    replays: int
    """Requests sent again at once on a fresh connection because the server surely had not looked at them."""


@frozen
class Event:
    """One step of a client's call, for ``on_event``."""

    name: str
    """``"attempt_started"``, ``"attempt_ended"``, ``"waiting"``, ``"admitted"``, ``"gave_up"``, ``"circuit_changed"``
    or ``"first_delta"``."""
    at: float
    """Seconds since the epoch."""
    host: str
    """Host and port."""
    model: str | None
    """The model, where the request names one."""
    number: int | None = None
    """Of the attempt; 1 for the first."""
    attempt: AttemptRecord | None = None
    """Of ``"attempt_ended"``: what came of it."""
    wait: float | None = None
    """Seconds: of ``"waiting"`` how long, where that is known; of ``"admitted"`` how long it took."""
    until: datetime | None = None
    """Of ``"waiting"``, when that will be over, as an aware UTC datetime."""
    stop_reason: StopReason | None = None
    """Of ``"gave_up"``."""
    state: str | None = None
    """Of ``"circuit_changed"``: ``"closed"``, ``"open"``, ``"half_open"``, ``"forced_open"``, ``"forced_closed"``."""


@frozen
class CallRecord:
    """One whole call, for ``on_end``: successes and failures alike."""

    attempts: tuple[AttemptRecord, ...]
    """Every attempt in order."""
    requests: int
    """HTTP requests sent, replays included."""
    elapsed: float
    """Seconds from the first look at the clock to the end."""
    usage: dict[str, int] | None
    """Tokens summed over all attempts, where the provider told them."""
    outcome: str
    """``"answered"``, or the stop reason."""
    stop_reason: StopReason | None
    """Why it ended without success; ``None`` when it was answered."""
