"""What the errors of LLM SDKs mean: one table for each SDK, class by class, by name.

An SDK's error with a response is read as that response: status, headers and body go to the core, and the SDK's own
name for it says nothing more. The body is taken from the response, because SDKs keep only a part of it.
"""

from __future__ import annotations

import json

from ._chain import attribute
from ._finding import Finding, answer, fault, invalid, plain, refusal, vague
from ._known_grpc import GRPC
from ._known_http import body_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._finding import Table


def of_status(exc: Any) -> Finding | None:
    """``APIStatusError`` and its like. A status of 200 is a stream that ended in an error."""
    response = attribute(exc, "response") or attribute(exc, "raw_response")
    status = attribute(exc, "status_code") or attribute(response, "status_code")
    body = body_of(response) or enveloped(attribute(exc, "body"))
    return answer(status, attribute(response, "headers"), body, attribute(response, "url"))


def of_event(exc: Any) -> Finding | None:
    """A bare ``APIError``: an error event inside a stream, whose status was 200."""
    body = enveloped(attribute(exc, "body"))
    return answer(200, None, body, attribute(attribute(exc, "request"), "url")) if body else None


def enveloped(body: object) -> bytes | str:
    """A parsed body as JSON again; of some the SDK keeps what stands in ``error`` only."""
    if isinstance(body, dict):
        try:
            return json.dumps(body if "error" in body else {"error": body})
        except (TypeError, ValueError, RecursionError):
            return b""
    return body if isinstance(body, (bytes, str)) else b""


# openai, anthropic and groq are generated alike.
STAINLESS: Table = {
    "APIStatusError": of_status,
    "APITimeoutError": vague("read_timeout"),
    "APIConnectionError": vague("connection_lost"),
    "APIResponseValidationError": invalid(known=True),
    "APIWebhookValidationError": refusal("unauthorized"),
    "InvalidWebhookSignatureError": refusal("unauthorized"),
    "APIError": of_event,
    # Raised before anything is sent, for instance where no key was given.
    "OpenAIError": refusal("programming_error"),
    "AnthropicError": refusal("programming_error"),
    "GroqError": refusal("programming_error"),
    # Kinds of the above that are no fault of the program.
    "LengthFinishReasonError": invalid(known=True),
    "ContentFilterFinishReasonError": refusal("content_blocked", "maybe"),
    "SubjectTokenProviderError": of_status,
    "WebSocketConnectionClosedError": fault("connection_lost"),
    "WebSocketQueueFullError": plain("function_failed"),
    "RetryableError": plain("told_to_retry"),
    "CredentialsError": refusal("unauthorized"),
}


def of_genai(exc: Any) -> Finding | None:
    """google-genai's ``APIError``; over aiohttp the body is kept in ``details`` only."""
    response = attribute(exc, "response")
    body = body_of(response) or enveloped(attribute(exc, "details"))
    return answer(attribute(exc, "code"), attribute(response, "headers"), body, attribute(response, "url"))


GENAI: Table = {
    "APIError": of_genai,
    "UnknownFunctionCallArgumentError": refusal("programming_error"),
    "UnsupportedFunctionError": refusal("programming_error"),
    "UnknownApiResponseError": invalid(known=True),
}

MISTRAL: Table = {
    "ResponseValidationError": invalid(known=True),
    "MistralError": of_status,
    "SDKError": of_status,
    "HTTPValidationError": of_status,
    "NoResponseError": fault("connection_lost"),
}


def of_aws(exc: Any) -> Finding | None:
    """botocore's ``ClientError``: code, message, status and headers, parsed; an event in a stream has no status."""
    response = attribute(exc, "response")
    if not isinstance(response, dict):
        return None
    told = response.get("Error") or {}
    about = response.get("ResponseMetadata") or {}
    body = enveloped({"error": {"code": told.get("Code"), "message": told.get("Message")}})
    status, headers = about.get("HTTPStatusCode"), dict(about.get("HTTPHeaders") or {})
    if not isinstance(status, int):
        status, headers[":exception-type"] = 200, str(told.get("Code"))
    return answer(status, headers, body, None, "bedrock")


BOTOCORE: Table = {
    "ClientError": of_aws,
    "EndpointConnectionError": fault("connect_failed", "no"),
    "ConnectTimeoutError": fault("connect_timeout", "no"),
    "ReadTimeoutError": fault("read_timeout"),
    "ConnectionClosedError": fault("connection_lost"),
    "ResponseStreamingError": fault("truncated"),
    "IncompleteReadError": fault("truncated"),
    "ChecksumError": fault("body_corrupt"),
    "FlexibleChecksumError": fault("body_corrupt"),
    "ProxyConnectionError": vague("proxy_refused", "no"),
    "SSLError": vague("tls_failed"),
    "ConnectionError": vague("connect_failed", "no"),
    "HTTPClientError": vague("connection_lost"),
    "MetadataRetrievalError": vague("connect_failed", "no"),
    "CapacityNotAvailableError": fault("rate_limited", "no"),
    "WaiterError": plain("function_failed"),
    "NoCredentialsError": refusal("unauthorized"),
    "PartialCredentialsError": refusal("unauthorized"),
    "CredentialRetrievalError": refusal("unauthorized"),
    "NoAuthTokenError": refusal("unauthorized"),
    "TokenRetrievalError": refusal("unauthorized"),
    "SSOError": refusal("unauthorized"),
    # All others find fault with parameters or the configuration, and nothing was sent.
    "BotoCoreError": refusal("programming_error"),
}

SDKS: dict[str, Table] = {
    "openai": STAINLESS,
    "anthropic": STAINLESS,
    "groq": STAINLESS,
    "google.genai": GENAI,
    "mistralai": MISTRAL,
    "botocore": BOTOCORE,
    "grpc": GRPC,
}
