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


def tokens(answer: Any) -> dict[str, int] | None:
    """``{"input_tokens", "output_tokens", "total_tokens"}`` of a parsed answer; ``None`` when it tells none."""
    if not isinstance(answer, dict):
        return None
    for place, *names in _SHAPES:
        counts = answer.get(place)
        if not isinstance(counts, dict) or not isinstance(counts.get(names[0]), int):
            continue
        found = [counts[name] if isinstance(counts.get(name), int) else 0 for name in names]
        spent, made, total = found
        return {"input_tokens": spent, "output_tokens": made, "total_tokens": total or spent + made}
    cohere = answer.get("usage")
    if isinstance(cohere, dict) and isinstance(cohere.get("tokens"), dict):
        return tokens({"usage": cohere["tokens"]})
    return None
