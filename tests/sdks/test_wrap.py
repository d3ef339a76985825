"""``wrap``: which clients it copies, and what of them the copy keeps."""

from __future__ import annotations

from typing import Any

import anthropic
import groq
import httpx
import httpx2
import mistralai.client
import openai
import pytest
from google import genai
from google.genai import types

import steadycall
from steadycall import _transport
from steadycall.testing import Answer, FakeServer, FakeSleep, answers

from .over_transport import CHAT

STAINLESS = [
    openai.OpenAI(api_key="k", max_retries=7),
    openai.AsyncOpenAI(api_key="k", max_retries=7),
    openai.AzureOpenAI(api_key="k", api_version="v", azure_endpoint="https://a.test", max_retries=7),
    openai.AsyncAzureOpenAI(api_key="k", api_version="v", azure_endpoint="https://a.test", max_retries=7),
    anthropic.Anthropic(api_key="k", max_retries=7),
    anthropic.AsyncAnthropic(api_key="k", max_retries=7),
    anthropic.AnthropicVertex(region="eu", project_id="p", access_token="t", max_retries=7),
    anthropic.AsyncAnthropicFoundry(resource="r", api_key="k", max_retries=7),
    groq.Groq(api_key="k", max_retries=7),
    groq.AsyncGroq(api_key="k", max_retries=7),
]


@pytest.mark.parametrize("client", STAINLESS, ids=lambda client: type(client).__name__)
def test_a_copy_has_no_retries_of_its_own_and_is_otherwise_the_client(client: Any) -> None:
    copy = steadycall.wrap(client)
    assert type(copy) is type(client)
    assert (copy.max_retries, client.max_retries) == (0, 7)
    assert (copy.base_url, copy.timeout) == (client.base_url, client.timeout)
    assert getattr(copy, "api_key", None) == getattr(client, "api_key", None)
    transport = copy._client._transport
    is_async = type(client).__name__.startswith("Async")
    assert isinstance(transport, steadycall.AsyncTransport if is_async else steadycall.Transport)
    assert not isinstance(client._client._transport, (steadycall.Transport, steadycall.AsyncTransport))


def test_a_genai_client_keeps_its_options_and_makes_one_attempt_of_its_own() -> None:
    retries = types.HttpRetryOptions(attempts=5)
    options = types.HttpOptions(
        base_url="https://g.test", api_version="v9", timeout=7000, headers={"x-mine": "1"}, retry_options=retries
    )
    client = genai.Client(api_key="k", http_options=options)
    copy = steadycall.wrap(client)
    kept = copy._api_client._http_options
    assert (kept.base_url, kept.api_version, kept.timeout) == ("https://g.test", "v9", 7000)
    assert (kept.headers["x-mine"], copy._api_client.api_key) == ("1", "k")
    assert (kept.retry_options.attempts, client._api_client._http_options.retry_options.attempts) == (1, 5)
    assert isinstance(copy._api_client._httpx_client._transport, steadycall.Transport)


def test_a_mistral_client_keeps_its_key_and_server_and_loses_its_retries() -> None:
    from mistralai.client.utils.retries import BackoffStrategy, RetryConfig

    retries = RetryConfig("backoff", BackoffStrategy(1, 2, 1.5, 1000), True)
    client = mistralai.client.Mistral(api_key="k", server_url="https://m.test", timeout_ms=7000, retry_config=retries)
    copy = steadycall.wrap(client)
    kept = copy.sdk_configuration
    assert (kept.security, kept.server_url, kept.timeout_ms) == (
        client.sdk_configuration.security,
        "https://m.test",
        7000,
    )
    with FakeServer(503) as server:
        kept.server_url = server.url
        with pytest.raises(Exception):  # noqa: B017 - whichever the SDK has
            steadycall.wrap(copy, steadycall.Policy(tries=2), sleep=lambda seconds: None).chat.complete(**CHAT)
        assert len(server.requests) == 2


@pytest.mark.parametrize("client", [object(), httpx.Client(), openai, None], ids=lambda client: type(client).__name__)
def test_an_unknown_client_is_refused_by_name(client: Any) -> None:
    with pytest.raises(steadycall.ConfigError, match="google-genai") as found:
        steadycall.wrap(client)
    assert type(client).__qualname__ in str(found.value)


def test_a_client_of_another_package_under_the_same_roof_is_refused() -> None:
    storage = type("Client", (), {"__module__": "google.cloud.storage.client"})
    with pytest.raises(steadycall.ConfigError, match=r"google\.cloud\.storage"):
        steadycall.wrap(storage())


def test_the_client_of_a_subclass_is_copied_as_one(fake_sleep: FakeSleep, llm_server: FakeServer) -> None:
    class Mine(openai.OpenAI):
        pass

    llm_server.answer("/v1/chat/completions", 503, answers.openai.ok())
    with steadycall.wrap(Mine(api_key="k", base_url=llm_server.url_for("/v1")), steadycall.Policy(tries=2)) as copy:
        assert isinstance(copy, Mine)
        assert copy.chat.completions.create(**CHAT).choices[0].message.content == "Hello."
    assert llm_server.requests[-1].headers["authorization"] == "Bearer k"
    assert len(llm_server.requests) == 2


@pytest.mark.parametrize(
    "answer", [Answer(503), answers.openai.rate_limited(2), Answer(reset="before")], ids=["503", "429", "reset"]
)
def test_an_sdk_that_still_retries_above_does_not_multiply_what_was_given_up(
    answer: Answer, fake_sleep: FakeSleep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(_transport, "_warned", True)
    with FakeServer(answer) as server:
        http = httpx2.Client(transport=steadycall.Transport(steadycall.Policy(tries=2)))
        client = openai.OpenAI(api_key="k", base_url=server.url_for("/v1"), http_client=http, max_retries=3)
        with pytest.raises(openai.APIError):
            client.chat.completions.create(**CHAT)
        assert len(server.requests) == 2
