"""Tokens an answer cost, by the names each provider gives them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# (where the counts are, input, output, total); the first that fits an answer is read.
_SHAPES = (
    ("usage", "prompt_tokens", "completion_tokens", "total_tokens"),  # OpenAI chat and its many likenesses
    ("usage", "input_tokens", "output_tokens", "total_tokens"),  # OpenAI Responses, Anthropic
    ("usage", "inputTokens", "outputTokens", "totalTokens"),  # Bedrock Converse
    ("usageMetadata", "promptTokenCount", "candidatesTokenCount", "totalTokenCount"),  # Gemini
    ("usage", "total_input_tokens", "total_output_tokens", "total_tokens"),  # Gemini Interactions
)


_NAMES = {"input_tokens", "output_tokens", "total_tokens"}


def tokens(answer: Any) -> dict[str, int] | None:
    """``{"input_tokens", "output_tokens", "total_tokens"}`` of an answer; ``None`` when it tells none.

    An answer is parsed JSON, or an SDK's object with attributes of the same names, in any spelling a provider uses.
    """
    for place, *names in _SHAPES:
        counts = _look(answer, place)
        spent, made, total = (_look(counts, name) for name in names)
        if not isinstance(spent, int):
            continue
        made, total = (count if isinstance(count, int) else 0 for count in (made, total))
        return {"input_tokens": spent, "output_tokens": made, "total_tokens": total or spent + made}
    within = _look(_look(answer, "usage"), "tokens")  # Cohere
    return None if within is None else tokens({"usage": within})


def total(answers: list[Any]) -> dict[str, int] | None:
    """The tokens that all of these answers cost; ``None`` when none of them tells."""
    sum_: dict[str, int] | None = None
    for answer in answers:
        sum_ = add(sum_, answer)
    return sum_


def add(sum_: dict[str, int] | None, answer: Any) -> dict[str, int] | None:
    """The tokens of another answer added to those before."""
    # A reply of a client's tells of the answers before it too.
    told = None if isinstance(answer, dict) else _look(answer, "total_usage")
    return join(sum_, told if isinstance(told, dict) and told.keys() == _NAMES else tokens(answer))


def join(one: dict[str, int] | None, other: dict[str, int] | None) -> dict[str, int] | None:
    """Two sums as one."""
    if one is None or other is None:
        return other if one is None else one
    return {name: one[name] + count for name, count in other.items()}


def _look(holder: Any, name: str) -> Any:
    """A field of JSON, or of an SDK's object, which spells it as Python does."""
    if isinstance(holder, dict):
        return holder.get(name)
    try:
        return getattr(holder, _SNAKE.get(name, name), None)
    except Exception:
        return None


_SNAKE = {
    "usageMetadata": "usage_metadata",
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "totalTokenCount": "total_token_count",
}
