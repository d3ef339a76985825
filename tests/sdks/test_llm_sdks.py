"""The real errors of LLM SDKs, sync and async, raised by a scripted server."""

from __future__ import annotations

import asyncio

import anthropic
import groq
import httpx
import mistralai.client
import openai
import pytest
from google import genai
from google.genai import types

import steadycall
from steadycall.testing import Answer, FakeServer, answers

from .faults import ANTHROPIC, GEMINI, OPENAI, TRANSPORT, Expected, check, raised, serving

KEYS = {"api_key": "k", "timeout": 0.5, "max_retries": 0}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}


def with_openai(url):
    openai.OpenAI(base_url=f"{url}/v1", **KEYS).chat.completions.create(**CHAT)


def with_openai_stream(url):
    list(openai.OpenAI(base_url=f"{url}/v1", **KEYS).chat.completions.create(stream=True, **CHAT))


async def with_async_openai(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", **KEYS) as client:
        await client.chat.completions.create(**CHAT)


def with_groq(url):
    groq.Groq(base_url=url, **KEYS).chat.completions.create(**CHAT)


async def with_async_groq(url):
    async with groq.AsyncGroq(base_url=url, **KEYS) as client:
        await client.chat.completions.create(**CHAT)


def with_anthropic(url):
    anthropic.Anthropic(base_url=url, **KEYS).messages.create(max_tokens=9, **CHAT)


async def with_async_anthropic(url):
    async with anthropic.AsyncAnthropic(base_url=url, **KEYS) as client:
        await client.messages.create(max_tokens=9, **CHAT)


def with_mistral(url):
    with mistralai.client.Mistral(api_key="k", server_url=url, timeout_ms=500) as client:
        client.chat.complete(**CHAT)


async def with_async_mistral(url):
    async with mistralai.client.Mistral(api_key="k", server_url=url, timeout_ms=500) as client:
        await client.chat.complete_async(**CHAT)


def genai_client(url, **options):
    options = types.HttpOptions(base_url=url, timeout=500, retry_options=types.HttpRetryOptions(attempts=1), **options)
    return genai.Client(api_key="k", http_options=options)


def with_genai(url):
    with genai_client(url) as client:
        client.models.generate_content(model="gemini-test", contents="Hello?")


async def with_async_genai(url):
    async with genai_client(url).aio as client:
        await client.models.generate_content(model="gemini-test", contents="Hello?")


async def with_async_genai_over_httpx(url):
    async with genai_client(url, httpx_async_client=httpx.AsyncClient(timeout=0.5)).aio as client:
        await client.models.generate_content(model="gemini-test", contents="Hello?")


OF_OPENAI = [with_openai, with_async_openai, with_groq, with_async_groq, with_mistral, with_async_mistral]
OF_ANTHROPIC = [with_anthropic, with_async_anthropic]
OF_GEMINI = [with_genai, with_async_genai, with_async_genai_over_httpx]
ALL = [*OF_OPENAI, *OF_ANTHROPIC, *OF_GEMINI]


@pytest.mark.parametrize(
    ("sdk", "answer", "expected"),
    [
        pytest.param(sdk, *row, id=f"{sdk.__name__}-{fault}")
        for sdks, rows in ((OF_OPENAI, OPENAI), (OF_ANTHROPIC, ANTHROPIC), (OF_GEMINI, GEMINI))
        for sdk in sdks
        for fault, row in rows.items()
    ],
)
def test_an_answer_behind_an_sdk_is_judged_as_call_judges_it(sdk, answer, expected):
    with serving(answer) as url:
        failure = check(raised(sdk, url), expected)
        with pytest.raises(steadycall.CallError) as caught:
            steadycall.call(url, {}, tries=1)
    assert (failure.kind, failure.provider_code) == (caught.value.kind, caught.value.provider_code)
    assert failure.reason == caught.value.failure.reason


@pytest.mark.parametrize("fault", TRANSPORT)
@pytest.mark.parametrize("sdk", ALL)
def test_a_fault_of_the_transport_behind_an_sdk_is_told_by_the_client_below_it(sdk, fault):
    answer, expected = TRANSPORT[fault]
    if sdk is with_async_genai and fault == "silent":  # aiohttp's limit for the whole request names no phase
        expected = expected._replace(reason="longer than the time")
    with serving(answer) as url:
        check(raised(sdk, url), expected)


@pytest.mark.parametrize("sdk", ALL)
def test_a_certificate_that_is_not_trusted_is_permanent_behind_an_sdk(sdk, tls):
    with FakeServer(answers.openai.ok(), tls=tls) as server:
        check(
            raised(sdk, server.url_for("").rstrip("/")), Expected("permanent", False, sent="no", reason="certificate")
        )


@pytest.mark.parametrize("make", [openai.OpenAI, groq.Groq])
def test_a_client_without_a_key_is_permanent(make, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    check(raised(lambda url: make(), ""), Expected("permanent", False))


def events(*lines):
    return Answer(headers={"Content-Type": "text/event-stream"}, body="".join(f"{line}\n\n" for line in lines).encode())


def test_an_error_event_in_a_stream_is_judged_as_that_error():
    event = 'data: {"error": {"message": "The server had an error", "type": "server_error", "code": null}}'
    with serving(events(event)) as url:
        check(raised(with_openai_stream, url), Expected("call", True, 200))
    event = 'data: {"error": {"message": "no money", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    with serving(events(event)) as url:
        check(raised(with_openai_stream, url), Expected("permanent", False, 200))


def test_an_overload_inside_an_anthropic_stream_is_judged_as_that_overload():
    event = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'

    def stream(url):
        with anthropic.Anthropic(base_url=url, **KEYS).messages.stream(max_tokens=9, **CHAT) as events:
            list(events)

    with serving(events(event)) as url:
        failure = check(raised(stream, url), Expected("call", True, 200))
    assert failure.provider_code == "overloaded_error"


def test_an_answer_that_does_not_fit_the_sdks_model_is_a_validation_failure():
    with serving(Answer(json={"id": 3, "choices": "none"})) as url:
        check(raised(with_mistral, url), Expected("validation", True))


def test_a_cancelled_sdk_call_is_cancelled():
    async def main():
        async with FakeServer(Answer(never=True)) as server:
            task = asyncio.create_task(with_async_openai(server.url_for("").rstrip("/")))
            await server.await_for(lambda s: s.in_flight == 1)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                with pytest.raises(asyncio.CancelledError):
                    steadycall.classify_exception(error)
                return True

    assert asyncio.run(main())


def test_an_sdk_call_cut_by_a_timer_is_a_call_failure_and_not_a_cancellation():
    async def main(url):
        async with asyncio.timeout(0.1):
            await with_async_openai(url)

    with serving(Answer(never=True)) as url:
        check(raised(main, url), Expected("call", True, sent="maybe", reason="longer than the time"))
