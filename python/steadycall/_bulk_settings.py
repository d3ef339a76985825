"""What every kind of bulk run takes, with its defaults, and what that makes of a file of rows."""

from __future__ import annotations

from ._bulk_records import BulkPlan
from ._call import MAX_RESPONSE_BYTES
from ._errors import ConfigError
from ._limits import RateLimit
from ._native import Bulk, count, seconds_or_none
from ._policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import TypedDict

    from ._call import Headers
    from ._time import Seconds, Timeout

    class Keywords(TypedDict, total=False):
        """The keywords of every kind of run."""

        url: str | None
        base_url: str | None
        headers: Headers | None
        policy: Policy | None
        concurrency: int
        rate: RateLimit | None
        timeout: Seconds | Timeout | None
        max_response_bytes: int
        proxy: str | None
        ca_bundle: str | PathLike[str] | None
        give_up_after: Seconds | None


POLICY = Policy(tries=6, cap=60.0, max_wait=3600.0, attempt_timeout=600.0, hint_jitter=0.1)
"""How a row is retried unless told otherwise: more patiently than a single call, for nobody waits for one row."""


class Settings:
    """The keywords of a run, checked."""

    def __init__(
        self,
        *,
        url: str | None = None,
        base_url: str | None = None,
        headers: Headers | None = None,
        policy: Policy | None = None,
        concurrency: int = 32,
        rate: RateLimit | None = None,
        timeout: Seconds | Timeout | None = 120.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        proxy: str | None = None,
        ca_bundle: str | PathLike[str] | None = None,
        give_up_after: Seconds | None = 600.0,
    ) -> None:
        if (url is None) == (base_url is None):
            value = "neither" if url is None else "both"
            raise ConfigError(
                "url", value, "given for rows that are payloads, or base_url for rows in the Batch format"
            )
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigError("policy", repr(policy), "a Policy, or None")
        self.url, self.base_url = url, base_url
        self.policy = POLICY if policy is None else policy
        if self.policy.retry_on is not None or self.policy.retry_if is not None:
            raise ConfigError(
                "policy", "one with retry_on or retry_if", "one without: no Python code runs between rows"
            )
        self.concurrency = count("concurrency", concurrency)
        if rate is not None and not isinstance(rate, RateLimit):
            raise ConfigError("rate", repr(rate), "a RateLimit, or None")
        self.rate = rate
        self.give_up_after = seconds_or_none("give_up_after", give_up_after)
        self._rest = (headers, timeout, max_response_bytes, proxy, ca_bundle)

    def native(self) -> Bulk:
        """The run itself, not started."""
        headers, timeout, max_response_bytes, proxy, ca_bundle = self._rest
        requests, tokens = self._per_minute
        return Bulk(
            url=self.url,
            base_url=self.base_url,
            headers=() if headers is None else headers,
            policy=self.policy._checked,
            concurrency=self.concurrency,
            requests_per_minute=requests,
            tokens_per_minute=tokens,
            burst=self._burst,
            oversized=self.rate is None or self.rate.oversized == "pass",
            timeout=timeout,
            max_response_bytes=max_response_bytes,
            proxy=proxy,
            ca_bundle=ca_bundle,
            give_up_after=self.give_up_after,
        )

    def plan(self, rows: int, bad_lines: int, earlier: int, to_send: int, tokens: int, largest: int) -> BulkPlan:
        """What a run would cost."""
        worst = self.policy.worst_case()
        flows = [(n, flow) for n, flow in zip((to_send, tokens), self._per_minute, strict=True) if flow is not None]
        # What goes at once needs no time; of tokens it is the same part of a minute's as of requests.
        waits = (60.0 * max(n - (self._burst or 0) * flow / flows[0][1], 0) / flow for n, flow in flows)
        least = max(waits, default=0.0)
        turns = -(-to_send // self.concurrency)
        return BulkPlan(
            rows=rows,
            bad_lines=bad_lines,
            earlier=earlier,
            to_send=to_send,
            tokens=tokens,
            largest=largest,
            least_seconds=least,
            worst_seconds=None if worst.seconds is None else max(worst.seconds * turns, least * worst.requests),
            worst_requests=worst.requests * to_send,
        )

    @property
    def _burst(self) -> int | None:
        """Requests at once: a tenth of a minute's unless told otherwise, as for limits that answers tell of."""
        if self.rate is None or self.rate.burst is not None:
            return None if self.rate is None else self.rate.burst
        whole = self.rate.requests_per_minute or self.rate.tokens_per_minute
        return None if whole is None else max(whole // 10, 1)

    @property
    def _per_minute(self) -> tuple[int | None, int | None]:
        """Requests and tokens."""
        rate = self.rate
        return (None, None) if rate is None else (rate.requests_per_minute, rate.tokens_per_minute)
