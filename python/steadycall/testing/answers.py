"""Ready-made answers in the shapes providers send, so that a test says "gemini is overloaded" and not how it says so.

The shapes are those of each provider's API reference and of recorded failures; the texts are shortened.
Every function gives an `Answer`; ``.replace(delay=0.1)`` adds misbehaviour to it.
"""

from typing import Any

from steadycall.testing.message import Answer


class _Gemini:
    """Gemini, generateContent style. Waits are told in the body alone; no ``Retry-After`` is sent."""

    path = "/v1beta/models/gemini-test:generateContent"

    @staticmethod
    def ok(text: str = "Hello.", *, finish_reason: str = "STOP") -> Answer:
        """200 with one candidate."""
        return Answer(
            json={
                "candidates": [
                    {
                        "content": {"parts": [{"text": text}], "role": "model"},
                        "finishReason": finish_reason,
                        "index": 0,
                    }
                ],
                "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 4, "totalTokenCount": 12},
                "modelVersion": "gemini-test",
                "responseId": "test-response",
            }
        )

    @staticmethod
    def blocked(reason: str = "SAFETY") -> Answer:
        """200 without a candidate, because the prompt was blocked."""
        return Answer(json={"promptFeedback": {"blockReason": reason}, "modelVersion": "gemini-test"})

    @staticmethod
    def rate_limited(retry_delay: str | None = "2s") -> Answer:
        """429 for a quota per minute; waiting heals it. ``retry_delay`` is RetryInfo's, None leaves it out."""
        quota = _Gemini._quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "10")
        return _Gemini._exhausted(10, quota, retry_delay)

    @staticmethod
    def daily_quota(retry_delay: str | None = "20s") -> Answer:
        """429 for a quota per day, with the short hint it is known to carry; waiting does not heal it."""
        quota = _Gemini._quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "250")
        return _Gemini._exhausted(250, quota, retry_delay)

    @staticmethod
    def bad_request(message: str = "Request contains an invalid argument.") -> Answer:
        """400 INVALID_ARGUMENT."""
        return _Gemini._error(400, "INVALID_ARGUMENT", message)

    @staticmethod
    def bad_key() -> Answer:
        """400 with the reason API_KEY_INVALID."""
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }
        return _Gemini._error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", info)

    @staticmethod
    def server_error() -> Answer:
        """500 INTERNAL."""
        return _Gemini._error(500, "INTERNAL", "An internal error has occurred. Please retry.")

    @staticmethod
    def overloaded() -> Answer:
        """503 UNAVAILABLE."""
        return _Gemini._error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")

    @staticmethod
    def deadline_exceeded() -> Answer:
        """504 DEADLINE_EXCEEDED: the provider's deadline, not the caller's."""
        return _Gemini._error(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.")

    @staticmethod
    def _exhausted(limit: int, quota: dict[str, Any], retry_delay: str | None) -> Answer:
        metric = quota["violations"][0]["quotaMetric"]
        message = (
            "You exceeded your current quota, please check your plan and billing details.\n"
            f"* Quota exceeded for metric: {metric}, limit: {limit}, model: gemini-test"
        )
        details = [quota]
        if retry_delay is not None:
            message += f"\nPlease retry in {retry_delay}."
            details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry_delay})
        return _Gemini._error(429, "RESOURCE_EXHAUSTED", message, *details)

    @staticmethod
    def _quota(quota_id: str, value: str) -> dict[str, Any]:
        return {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {
                    "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                    "quotaId": quota_id,
                    "quotaDimensions": {"location": "global", "model": "gemini-test"},
                    "quotaValue": value,
                }
            ],
        }

    @staticmethod
    def _error(code: int, status: str, message: str, *details: dict[str, Any]) -> Answer:
        error: dict[str, Any] = {"code": code, "message": message, "status": status}
        if details:
            error["details"] = list(details)
        return Answer(code, json={"error": error})


class _OpenAI:
    """OpenAI, chat completions. The request id is in the header ``x-request-id``."""

    path = "/v1/chat/completions"

    @staticmethod
    def ok(text: str = "Hello.", *, finish_reason: str = "stop") -> Answer:
        """200 with one choice."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return Answer(
            headers={"x-request-id": "req_test"},
            json={
                "id": "chatcmpl-test",
                "object": "chat.completion",
                "created": 1767225600,
                "model": "gpt-test",
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}],
                "usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12},
            },
        )

    @staticmethod
    def rate_limited(retry_after: float | str | None = None) -> Answer:
        """429 for requests per minute; waiting heals it. ``retry_after`` is the header: seconds, or a date as text."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        message = (
            "Rate limit reached for gpt-test in organization org-test on requests per min (RPM): "
            "Limit 3, Used 3, Requested 1."
        )
        if isinstance(retry_after, (int, float)):
            message += f" Please try again in {retry_after}s."
        return _OpenAI._error(429, message, "requests", "rate_limit_exceeded", headers)

    @staticmethod
    def insufficient_quota() -> Answer:
        """429 because the money is gone; waiting does not heal it."""
        message = "You exceeded your current quota, please check your plan and billing details."
        return _OpenAI._error(429, message, "insufficient_quota", "insufficient_quota")

    @staticmethod
    def request_too_large() -> Answer:
        """429 because one request needs more tokens than a minute has; waiting does not heal it."""
        message = (
            "Request too large for gpt-test in organization org-test on tokens per min (TPM): "
            "Limit 30000, Requested 45000. The input or output tokens must be reduced in order to run successfully."
        )
        return _OpenAI._error(429, message, "tokens", "rate_limit_exceeded")

    @staticmethod
    def bad_request(message: str = "Invalid value for 'messages'.", *, code: str | None = None) -> Answer:
        """400 invalid_request_error."""
        return _OpenAI._error(400, message, "invalid_request_error", code)

    @staticmethod
    def bad_key() -> Answer:
        """401 invalid_api_key."""
        return _OpenAI._error(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")

    @staticmethod
    def server_error() -> Answer:
        """500 server_error."""
        message = "The server had an error while processing your request. Sorry about that!"
        return _OpenAI._error(500, message, "server_error", None)

    @staticmethod
    def overloaded() -> Answer:
        """503 server_is_overloaded."""
        message = "The server is currently overloaded. Please try again later."
        return _OpenAI._error(503, message, "service_unavailable_error", "server_is_overloaded")

    @staticmethod
    def _error(status: int, message: str, kind: str, code: str | None, headers: dict[str, str] | None = None) -> Answer:
        return Answer(
            status,
            headers={"x-request-id": "req_test", **(headers or {})},
            json={"error": {"message": message, "type": kind, "param": None, "code": code}},
        )


class _Anthropic:
    """Anthropic, messages. The request id is in the header ``request-id`` and in error bodies."""

    path = "/v1/messages"

    @staticmethod
    def ok(text: str = "Hello.", *, stop_reason: str = "end_turn") -> Answer:
        """200 with one block of text."""
        return Answer(
            headers={"request-id": "req_test"},
            json={
                "id": "msg_test",
                "type": "message",
                "role": "assistant",
                "model": "claude-test",
                "content": [{"type": "text", "text": text}],
                "stop_reason": stop_reason,
                "stop_sequence": None,
                "usage": {"input_tokens": 8, "output_tokens": 4},
            },
        )

    @staticmethod
    def rate_limited(retry_after: float | str | None = None) -> Answer:
        """429 rate_limit_error; waiting heals it. ``retry_after`` is the header: seconds, or a date as text."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        message = "This request would exceed your organization's rate limit of 50 requests per minute."
        return _Anthropic._error(429, "rate_limit_error", message, headers=headers)

    @staticmethod
    def spend_limit() -> Answer:
        """429 because the month's cap is reached; waiting does not heal it."""
        message = "You have reached the monthly spend limit of your usage tier."
        return _Anthropic._error(
            429, "rate_limit_error", message, details={"error_code": "enforced_spend_limit_reached"}
        )

    @staticmethod
    def bad_request(message: str = "messages: at least one message is required") -> Answer:
        """400 invalid_request_error."""
        return _Anthropic._error(400, "invalid_request_error", message)

    @staticmethod
    def no_credit() -> Answer:
        """400 because the credit balance is too low."""
        message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
        return _Anthropic._error(400, "invalid_request_error", message)

    @staticmethod
    def bad_key() -> Answer:
        """401 authentication_error."""
        return _Anthropic._error(401, "authentication_error", "invalid x-api-key")

    @staticmethod
    def server_error() -> Answer:
        """500 api_error."""
        return _Anthropic._error(500, "api_error", "Internal server error")

    @staticmethod
    def overloaded() -> Answer:
        """529 overloaded_error."""
        return _Anthropic._error(529, "overloaded_error", "Overloaded")

    @staticmethod
    def _error(
        status: int,
        kind: str,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> Answer:
        error: dict[str, Any] = {"type": kind, "message": message}
        if details is not None:
            error["details"] = details
        return Answer(
            status,
            headers={"request-id": "req_test", **(headers or {})},
            json={"type": "error", "error": error, "request_id": "req_test"},
        )


gemini = _Gemini()
openai = _OpenAI()
anthropic = _Anthropic()

__all__ = ["anthropic", "gemini", "openai"]
