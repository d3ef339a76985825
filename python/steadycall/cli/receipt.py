"""What a bulk run would cost, and what it came to, in words and as data."""

from __future__ import annotations

from urllib.parse import urlsplit

from steadycall.cli.paint import duration, money, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from steadycall import BulkPlan, BulkSummary

LABEL = 14

# Providers with a batch service of their own, which takes such rows at half the price.
BATCH_SERVICES = {
    "api.openai.com": "OpenAI",
    "api.anthropic.com": "Anthropic",
    "generativelanguage.googleapis.com": "Gemini",
    "aiplatform.googleapis.com": "Vertex AI",
    "api.mistral.ai": "Mistral",
    "api.groq.com": "Groq",
}
# What is wrong with a line that is no row; docs/bulk.md lists them.
BAD_LINES = {
    *("not_json", "not_an_object", "missing_custom_id", "duplicate_custom_id", "bad_method", "bad_url"),
    *("missing_body", "body_not_an_object", "stream", "too_long"),
}
# Below this a run is over before a batch job has begun.
SOON_OVER = 300.0


class Prices:
    """What a million tokens cost, in whatever money they were given."""

    def __init__(self, input: float | None, output: float | None) -> None:
        self.input, self.output = input, output

    @property
    def given(self) -> bool:
        return self.input is not None or self.output is not None

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """``None`` without a price."""
        if not self.given:
            return None
        return (input_tokens * (self.input or 0.0) + output_tokens * (self.output or 0.0)) / 1e6

    def most(self, tokens: int) -> float | None:
        """What tokens cost at the most, when it is not known which of them go in."""
        return max(self.cost(tokens, 0) or 0.0, self.cost(0, tokens) or 0.0) if self.given else None


def row(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


# Before


def planned(plan: BulkPlan, name: str, prices: Prices, target: str) -> str:
    """The plan for people."""
    rows = [row("rows", f"{plan.to_send:,} to send of {plan.rows + plan.bad_lines:,} in {name}")]
    if plan.earlier:
        rows.append(row("", f"{plan.earlier:,} recorded by earlier runs"))
    if plan.bad_lines:
        rows.append(row("", f"{plan.bad_lines:,} bad: they go to the file of failures"))
    largest = f", the largest row about {plan.largest:,}" if plan.to_send else ""
    rows.append(row("tokens", f"about {plan.tokens:,} with the output asked for{largest}"))
    most = prices.most(plan.tokens)
    if most is not None:
        # The estimate has no output of such a row, so this is no bound.
        rows.append(row("cost", f"about {money(most)} with one request a row"))
        rows.append(row("", "without the output of rows that set no limit to it"))
    rows.append(row("requests", f"{plan.to_send:,}, at the worst {plan.worst_requests:,}"))
    least = f"at least {duration(plan.least_seconds)} at the limits given; " if plan.least_seconds else ""
    if plan.worst_seconds is None:
        rows.append(row("time", f"{least}nothing bounds it: set --attempt-timeout or --deadline"))
    else:
        rows.append(row("time", f"{least}at the worst {duration(plan.worst_seconds)}"))
    return "\n".join([*rows, row("instead", advice(plan, target))])


def advice(plan: BulkPlan, target: str) -> str:
    """Whether the provider's own batch service would do as well."""
    service = service_at(target)
    if service is None:
        return "no batch service is known there; where answers may take a day, one costs half as much"
    if plan.to_send == 0:
        return "nothing is left to send"
    if plan.worst_seconds is not None and plan.worst_seconds < SOON_OVER:
        return f"the batch service of {service} costs half as much, but takes longer than this run"
    return f"if answers may take a day, the batch service of {service} would do as well, at half the price"


def service_at(target: str) -> str | None:
    host = urlsplit(target).hostname or ""
    return next((name for known, name in BATCH_SERVICES.items() if host == known or host.endswith(f"-{known}")), None)


def plan_data(plan: BulkPlan, prices: Prices, target: str) -> dict[str, Any]:
    """The plan for programs."""
    return {**vars(plan), "cost": prices.most(plan.tokens), "batch_service": service_at(target)}


# After


def summed(summary: BulkSummary, prices: Prices) -> str:
    """What a run came to, for people."""
    answered = summary.answered + summary.earlier_answered
    failed = summary.failed + summary.earlier_failed
    rows = [row("answered", f"{answered:,} of {times(summary.rows, 'row')}{earlier(summary.earlier_answered)}")]
    if failed:
        rows.append(row("failed", f"{failed:,}{earlier(summary.earlier_failed)}"))
        rows += [row("", f"{count:,} {name}") for name, count in by_count(summary.outcomes)]
    if summary.left:
        rows.append(row("left", f"{summary.left:,}"))
    if summary.maybe_billed_twice:
        told = f"{times(summary.maybe_billed_twice, 'row')} had been sent by an earlier run that did not record them"
        rows.append(row("billed twice?", told))
    limited = f", {summary.rate_limited:,} answered with 429" if summary.rate_limited else ""
    rows.append(row("requests", f"{summary.requests:,}{limited}"))
    rows.append(row("tokens", f"{summary.input_tokens:,} in, {summary.output_tokens:,} out"))
    cost = prices.cost(summary.input_tokens, summary.output_tokens)
    if cost is not None:
        rows.append(row("cost", f"{money(cost)} for this run's answers"))
    rows.append(row("time", duration(summary.elapsed)))
    rows.append(row("answers", summary.output))
    if failed:
        rows += [row("failures", summary.failures), *(row("", told) for told in again(summary))]
    return "\n".join(rows)


def again(summary: BulkSummary) -> list[str]:
    """What sends again what failed."""
    if summary.earlier_failed and not summary.left and not summary.answered + summary.failed:
        return ["nothing was sent, for all that is left failed in earlier runs: add --retry-failed to send it again"]
    bad = bad_lines(summary)
    told = ["--retry-failed sends them again"] if summary.failed + summary.earlier_failed > bad else []
    if bad:
        told.append(f"mend {times(bad, 'bad line')} in a file of their own, for other rows need another output")
    return told


def bad_lines(summary: BulkSummary) -> int:
    """Lines of the input that this run found to be no rows."""
    return sum(summary.outcomes.get(code, 0) for code in BAD_LINES)


def earlier(count: int) -> str:
    return f" ({count:,} by earlier runs)" if count else ""


def by_count(outcomes: Mapping[str, int]) -> list[tuple[str, int]]:
    """What rows failed of, the most frequent first."""
    failed = [(name, count) for name, count in outcomes.items() if name != "answered" and count]
    return sorted(failed, key=lambda pair: (-pair[1], pair[0]))


def summary_data(summary: BulkSummary, prices: Prices) -> dict[str, Any]:
    """The same for programs."""
    cost = prices.cost(summary.input_tokens, summary.output_tokens)
    return {**vars(summary), "outcomes": dict(summary.outcomes), "complete": summary.complete, "cost": cost}
