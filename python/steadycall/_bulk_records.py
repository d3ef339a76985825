"""What a bulk run tells of itself: frozen records."""

from __future__ import annotations

from . import _usage
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from ._records import Failure


@frozen
class BulkProgress:
    """How far a run is, at one moment."""

    rows: int
    """Lines of the input that are rows, good or bad; for rows of a program, those taken so far."""
    answered: int
    """Rows answered and recorded by this run."""
    failed: int
    """Rows recorded as failed by this run, bad lines included."""
    earlier: int
    """Rows that earlier runs recorded, answered or failed, and that are left alone."""
    in_flight: int
    """Requests on their way."""
    waiting: int
    """Rows that were read and wait: for a retry, a limit, a pause or a slot."""
    requests: int
    """HTTP requests sent by this run, retries included."""
    input_tokens: int
    """As the answers say; of answers that say nothing, nothing is counted."""
    output_tokens: int
    """The same for what the model wrote."""
    rate_limited: int
    """Requests that were answered with 429."""
    waits_until: datetime | None
    """Until when a provider asked to wait, or an open circuit holds everything; aware, in UTC."""
    last_error: str | None
    """The last request that failed: its host, and the status and reason; ``None`` before the first one."""
    elapsed: float
    """Seconds since the run was started."""

    @property
    def done(self) -> int:
        """Rows that have their record, from this run or an earlier one."""
        return self.answered + self.failed + self.earlier

    @property
    def left(self) -> int:
        """Rows that have no record yet."""
        return max(self.rows - self.done, 0)


@frozen
class BulkSummary:
    """How a run ended."""

    rows: int
    """Rows of the input, good or bad."""
    answered: int
    """Rows answered by this run."""
    failed: int
    """Rows recorded as failed by this run, bad lines included."""
    earlier_answered: int
    """Rows answered by earlier runs."""
    earlier_failed: int
    """Rows that failed in earlier runs and were left alone."""
    left: int
    """Rows without a record: 0 unless the run was stopped."""
    maybe_billed_twice: int
    """Rows that an earlier run had sent without recording what came of them, and that were sent again."""
    outcomes: Mapping[str, int]
    """Rows of this run by outcome: ``"answered"``, the names of reasons, and of what is wrong with bad lines."""
    requests: int
    """HTTP requests of this run."""
    rate_limited: int
    """Those answered with 429."""
    input_tokens: int
    """As the answers say."""
    output_tokens: int
    """As the answers say."""
    elapsed: float
    """Seconds from start to end."""
    stopped: str | None
    """``"stop"`` or ``"abort"`` when it was ended early, ``"refused"`` when the provider refused one row after the other
    for the account's sake (the key, the quota, the money), ``"wait"`` when it asked for a wait longer than the policy's
    ``max_wait`` - come back at ``waits_until`` -, ``"outage"`` when nothing but failures of the server or the network came
    back for ``give_up_after`` seconds, else ``None``."""
    last_error: str | None
    """The last request that failed: its host, and the status and reason."""
    waits_until: datetime | None
    """For a run that was stopped: until when a provider asked to wait; aware, in UTC."""
    output: str
    """The file of answers."""
    failures: str
    """The file of failures."""

    @property
    def complete(self) -> bool:
        """Whether every row has its record, be it an answer or a failure: whether nothing is left to do."""
        return self.left == 0


@frozen
class BulkPlan:
    """What a run would send, without sending anything."""

    rows: int
    """Rows of the input that can be sent."""
    bad_lines: int
    """Lines that cannot: they go to the file of failures."""
    earlier: int
    """Rows that earlier runs recorded."""
    to_send: int
    """Rows that would be sent now."""
    tokens: int
    """Estimated tokens of those, output asked for included."""
    largest: int
    """Estimated tokens of the largest one."""
    least_seconds: float
    """Seconds that the given limits need for one request a row; 0 without limits."""
    worst_seconds: float | None
    """Seconds when every row takes all its tries, each as long as it may; ``None`` when nothing bounds an attempt."""
    worst_requests: int
    """Requests when every row takes all its tries."""


@frozen
class BulkResult:
    """What came of one row of a program's own."""

    index: int
    """Place of the row among those given, from 0."""
    custom_id: str
    """The row's own, or ``row-1`` for the first one."""
    answer: Any
    """The parsed answer; ``None`` when the row failed."""
    status: int | None
    """HTTP status of the last answer."""
    request_id: str | None
    """The server's id for it."""
    failure: Failure | None
    """How the last attempt was judged; ``None`` for an answer."""
    why: str | None
    """One sentence for a failed row: what happened, or what is wrong with the row."""
    requests: int
    """HTTP requests it cost."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.why is None

    @property
    def usage(self) -> dict[str, int] | None:
        """``input_tokens``, ``output_tokens`` and ``total_tokens``, as the answer says; ``None`` when it does not."""
        return _usage.tokens(self.answer)
