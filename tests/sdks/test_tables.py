"""The names in the tables are those of the real packages, so that a renamed class is noticed with the next pin."""

from __future__ import annotations

import importlib
import inspect

import pytest

from steadycall._exceptions import TABLES, row_of

# Where a package keeps its exceptions.
MODULES = {
    "aiohttp": ["aiohttp.client_exceptions"],
    "anthropic": ["anthropic._exceptions"],
    "asyncpg": ["asyncpg.exceptions"],
    "bson": ["bson.errors"],
    "botocore": ["botocore.exceptions"],
    "builtins": ["builtins"],
    "circuitbreaker": ["circuitbreaker"],
    "google.genai": ["google.genai.errors"],
    "groq": ["groq._exceptions"],
    "grpc": ["grpc"],
    "http": ["http.client"],
    "httpcore": ["httpcore"],
    "httpcore2": ["httpcore2"],
    "httpx": ["httpx"],
    "httpx2": ["httpx2"],
    "json": ["json"],
    "jsonschema": ["jsonschema.exceptions"],
    "mistralai": [f"mistralai.client.errors.{name}" for name in ("mistralerror", "sdkerror", "httpvalidationerror")]
    + [f"mistralai.client.errors.{name}" for name in ("responsevalidationerror", "no_response_error")],
    "msgspec": ["msgspec"],
    "openai": ["openai._exceptions"],
    "pybreaker": ["pybreaker"],
    "pydantic": ["pydantic", "pydantic.errors", "pydantic.v1"],
    "pydantic_core": ["pydantic_core"],
    "pymongo": ["pymongo.errors"],
    "redis": ["redis.exceptions"],
    "requests": ["requests.exceptions"],
    "socket": ["socket"],
    "sqlalchemy": ["sqlalchemy.exc", "sqlalchemy.orm.exc"],
    "ssl": ["ssl"],
    "steadycall": ["steadycall._errors"],
    "urllib": ["urllib.error"],
    "urllib3": ["urllib3.exceptions"],
}

# Names that a table has beyond its package: shared by a family, of other versions, or yet to come.
BEYOND = {
    "anthropic": {
        "OpenAIError",
        "GroqError",
        "InvalidWebhookSignatureError",
        "LengthFinishReasonError",
        "ContentFilterFinishReasonError",
    }
    | {"SubjectTokenProviderError", "WebSocketConnectionClosedError", "WebSocketQueueFullError"},
    "openai": {"AnthropicError", "GroqError", "APIWebhookValidationError", "RetryableError", "CredentialsError"},
    "groq": {
        "OpenAIError",
        "AnthropicError",
        "InvalidWebhookSignatureError",
        "APIWebhookValidationError",
        "RetryableError",
        "CredentialsError",
    }
    | {"LengthFinishReasonError", "ContentFilterFinishReasonError", "SubjectTokenProviderError"}
    | {"WebSocketConnectionClosedError", "WebSocketQueueFullError"},
    "httpcore": {"HTTPStatusError", "DecodingError", "TooManyRedirects", "InvalidURL", "CookieConflict"}
    | {"StreamError", "HTTPError"},
    "asyncpg": {"DatabaseError", "OperationalError", "IntegrityError", "ProgrammingError", "NotSupportedError"}
    | {"InternalError"},
}
BEYOND["httpcore2"] = BEYOND["httpcore"]

# Not installed: it pins an asyncio of long ago. Its one class is the one of pybreaker, which it was made from.
ABSENT = {"aiobreaker"}


def classes(package):
    found = {}
    for module in MODULES[package]:
        for name, value in vars(importlib.import_module(module)).items():
            if inspect.isclass(value) and issubclass(value, BaseException):
                found[name] = value
    return found


def test_every_table_is_held_to_its_package():
    assert TABLES.keys() - ABSENT == MODULES.keys()


@pytest.mark.parametrize("package", sorted(MODULES))
def test_every_name_in_a_table_is_a_class_of_its_package(package):
    real = classes(package)
    assert TABLES[package].keys() - real.keys() == BEYOND.get(package, set())
    for name in TABLES[package].keys() & real.keys():
        assert row_of(real[name]) is TABLES[package][name], name


@pytest.mark.parametrize("package", ["anthropic", "groq", "httpx", "httpx2", "openai", "pymongo", "requests"])
def test_every_exception_of_a_package_has_a_row_or_a_parent_with_one(package):
    raised = {name: cls for name, cls in classes(package).items() if not issubclass(cls, Warning)}
    assert [name for name, cls in raised.items() if not any(map(row_of, cls.__mro__))] == []
