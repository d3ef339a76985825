"""Many calls in one event loop, one deadline for all of them, and one key that is renewed while they run."""

from __future__ import annotations

import asyncio
from typing import Any

import steadycall
from steadycall.testing import FakeServer, answers


class Tokens:
    """A stand-in for an identity provider whose tokens expire."""

    def __init__(self) -> None:
        self.given = 0

    async def headers(self) -> dict[str, str]:
        self.given += 1
        return {"Authorization": f"Bearer token-{self.given}"}


async def summarise(url: str, texts: list[str]) -> list[str]:
    """The texts' summaries; a text whose call failed gets a sentence fit for the reader instead."""
    deadline = steadycall.Deadline.after(20)  # handed to every call, so it bounds the whole, waits included
    tokens = Tokens()

    async def one(text: str) -> str:
        try:
            answer: Any = await steadycall.acall(
                url,
                {"model": "m", "messages": [{"role": "user", "content": text}]},
                headers=tokens.headers,  # asked before each attempt
                deadline=deadline,
            )
        except steadycall.CallError as error:
            return error.safe_message
        content: str = answer["choices"][0]["message"]["content"]
        return content

    return await asyncio.gather(*map(one, texts))


async def main() -> None:
    async with FakeServer() as server:
        server.script(
            answers.openai.path,
            [answers.openai.overloaded(), answers.openai.bad_request()],
            then=answers.openai.ok("Short."),
        )
        for summary in await summarise(server.url_for(answers.openai.path), ["one", "two", "three", "four"]):
            print(summary)


if __name__ == "__main__":
    asyncio.run(main())
