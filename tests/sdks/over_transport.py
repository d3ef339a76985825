"""Every SDK over a transport of ours: how to ask it and how to stream from it, and what its provider answers.

``Sdk.ask`` and ``Sdk.stream`` take a server's URL and what ``wrap`` takes, and give the text of the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import groq
import mistralai.client
import openai
from google import genai
from google.genai import types

import steadycall
from steadycall.testing import Answer, answers

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}
KEYS: dict[str, Any] = {"api_key": "k", "timeout": 5.0}


class Provider(NamedTuple):
    """What one provider answers."""

    ok: Answer
    overloaded: Answer
    rate_limited: Answer  # for 2 s
    bad_key: Answer
    no_money: Answer
    hidden: Answer  # an overload inside a 200
    events: list[str]  # a good stream of "Hello."
    opening: list[str]  # what comes before its first content
    failing: str  # an overload in a stream
    shown: int  # the status of an overload in a 200


def sse(*events: str) -> Answer:
    return Answer(headers={"content-type": "text/event-stream"}, body="".join(events))


def data(value: object, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"


def chunk(delta: dict[str, Any], end: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": end}
    return data(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], "usage": None}
    )


def event(kind: str, **fields: Any) -> str:
    return data({"type": kind, **fields}, kind)


OVERLOAD = {"error": {"message": "Overloaded", "type": "server_error", "param": None, "code": "server_is_overloaded"}}
OPENAI = Provider(
    ok=answers.openai.ok(),
    overloaded=answers.openai.overloaded(),
    rate_limited=answers.openai.rate_limited(2),
    bad_key=answers.openai.bad_key(),
    no_money=answers.openai.insufficient_quota(),
    hidden=Answer(json=OVERLOAD),
    opening=[chunk({"role": "assistant", "content": ""})],
    events=[chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo."}),
            chunk({}, "stop"), "data: [DONE]\n\n"],
    failing=data(OVERLOAD),
    shown=503,
)  # fmt: skip

MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 8, "output_tokens": 0},
}  # fmt: skip
STARTS = [
    event("message_start", message=MESSAGE),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("ping"),
]
TOO_BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
ANTHROPIC = Provider(
    ok=answers.anthropic.ok(),
    overloaded=answers.anthropic.overloaded(),
    rate_limited=answers.anthropic.rate_limited(2),
    bad_key=answers.anthropic.bad_key(),
    no_money=answers.anthropic.spend_limit(),
    hidden=Answer(json=TOO_BUSY),
    opening=STARTS,
    events=[*STARTS,
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hello."}),
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 4}),
            event("message_stop")],
    failing=data(TOO_BUSY, "error"),
    shown=529,
)  # fmt: skip

UNAVAILABLE = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


def part(text: str, **fields: Any) -> str:
    return data({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **fields}]})


GEMINI = Provider(
    ok=answers.gemini.ok(),
    overloaded=answers.gemini.overloaded(),
    rate_limited=answers.gemini.rate_limited("2s"),
    bad_key=answers.gemini.bad_key(),
    no_money=answers.gemini.daily_quota(),
    hidden=Answer(json=UNAVAILABLE),
    opening=[data({"usageMetadata": {"promptTokenCount": 8}, "modelVersion": "m"})],
    events=[data({"usageMetadata": {"promptTokenCount": 8}, "modelVersion": "m"}), part("Hel"),
            part("lo.", finishReason="STOP")],
    failing=data(UNAVAILABLE),
    shown=503,
)  # fmt: skip


class Sdk(NamedTuple):
    name: str
    provider: Provider
    ask: Callable[..., str]
    stream: Callable[..., str]


def wrapped(client: Any, *args: Any, **options: Any) -> Any:
    return steadycall.wrap(client, *args, **options)


def chats(name: str, make: Callable[[str], Any]) -> Sdk:
    """openai and groq, sync."""

    def ask(url: str, *args: Any, **options: Any) -> str:
        with wrapped(make(url), *args, **options) as client:
            return client.chat.completions.create(**CHAT).choices[0].message.content

    def stream(url: str, *args: Any, **options: Any) -> str:
        with wrapped(make(url), *args, **options) as client:
            got = client.chat.completions.create(stream=True, **CHAT)
            return "".join(part.choices[0].delta.content or "" for part in got)

    return Sdk(name, OPENAI, ask, stream)


def async_chats(name: str, make: Callable[[str], Any]) -> Sdk:
    """openai and groq, async."""

    async def ask(url: str, *args: Any, **options: Any) -> str:
        async with wrapped(make(url), *args, **options) as client:
            return (await client.chat.completions.create(**CHAT)).choices[0].message.content

    async def stream(url: str, *args: Any, **options: Any) -> str:
        async with wrapped(make(url), *args, **options) as client:
            got = await client.chat.completions.create(stream=True, **CHAT)
            return "".join([part.choices[0].delta.content or "" async for part in got])

    return Sdk(name, OPENAI, ask, stream)


def ask_anthropic(url: str, *args: Any, **options: Any) -> str:
    with wrapped(anthropic.Anthropic(base_url=url, **KEYS), *args, **options) as client:
        return client.messages.create(max_tokens=9, **CHAT).content[0].text


def stream_anthropic(url: str, *args: Any, **options: Any) -> str:
    with wrapped(anthropic.Anthropic(base_url=url, **KEYS), *args, **options) as client:
        with client.messages.stream(max_tokens=9, **CHAT) as got:
            return "".join(got.text_stream)


async def aask_anthropic(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(anthropic.AsyncAnthropic(base_url=url, **KEYS), *args, **options) as client:
        return (await client.messages.create(max_tokens=9, **CHAT)).content[0].text


async def astream_anthropic(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(anthropic.AsyncAnthropic(base_url=url, **KEYS), *args, **options) as client:
        async with client.messages.stream(max_tokens=9, **CHAT) as got:
            return "".join([text async for text in got.text_stream])


def mistral(url: str) -> Any:
    return mistralai.client.Mistral(api_key="k", server_url=url, timeout_ms=5000)


def ask_mistral(url: str, *args: Any, **options: Any) -> str:
    with wrapped(mistral(url), *args, **options) as client:
        return client.chat.complete(**CHAT).choices[0].message.content


def stream_mistral(url: str, *args: Any, **options: Any) -> str:
    with wrapped(mistral(url), *args, **options) as client:
        with client.chat.stream(**CHAT) as got:
            return "".join(event.data.choices[0].delta.content or "" for event in got)


async def aask_mistral(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(mistral(url), *args, **options) as client:
        return (await client.chat.complete_async(**CHAT)).choices[0].message.content


async def astream_mistral(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(mistral(url), *args, **options) as client:
        async with await client.chat.stream_async(**CHAT) as got:
            return "".join([event.data.choices[0].delta.content or "" async for event in got])


def gemini(url: str) -> Any:
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, timeout=5000))


GENERATE: dict[str, Any] = {"model": "gemini-test", "contents": "Hello?"}


def ask_genai(url: str, *args: Any, **options: Any) -> str:
    with wrapped(gemini(url), *args, **options) as client:
        return client.models.generate_content(**GENERATE).text


def stream_genai(url: str, *args: Any, **options: Any) -> str:
    with wrapped(gemini(url), *args, **options) as client:
        return "".join(part.text or "" for part in client.models.generate_content_stream(**GENERATE))


async def aask_genai(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(gemini(url), *args, **options).aio as client:
        return (await client.models.generate_content(**GENERATE)).text


async def astream_genai(url: str, *args: Any, **options: Any) -> str:
    async with wrapped(gemini(url), *args, **options).aio as client:
        got = await client.models.generate_content_stream(**GENERATE)
        return "".join([part.text or "" async for part in got])


SDKS = [
    chats("openai", lambda url: openai.OpenAI(base_url=f"{url}/v1", **KEYS)),
    async_chats("openai-async", lambda url: openai.AsyncOpenAI(base_url=f"{url}/v1", **KEYS)),
    chats("groq", lambda url: groq.Groq(base_url=url, **KEYS)),
    async_chats("groq-async", lambda url: groq.AsyncGroq(base_url=url, **KEYS)),
    Sdk("anthropic", ANTHROPIC, ask_anthropic, stream_anthropic),
    Sdk("anthropic-async", ANTHROPIC, aask_anthropic, astream_anthropic),
    Sdk("mistral", OPENAI, ask_mistral, stream_mistral),
    Sdk("mistral-async", OPENAI, aask_mistral, astream_mistral),
    Sdk("genai", GEMINI, ask_genai, stream_genai),
    Sdk("genai-async", GEMINI, aask_genai, astream_genai),
]


def done(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result of a sync or an async function."""
    given = work(*args, **options)
    return asyncio.run(given) if asyncio.iscoroutine(given) else given


def status_of(error: BaseException) -> int | None:
    """The status an SDK's error tells."""
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    return found if isinstance(found, int) else None
