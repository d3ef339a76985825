"""The lessons of a course, written by a model: one time budget, one stop flag, and an account of what each one cost."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from typing import Any

import steadycall
from steadycall.testing import Answer, FakeServer, Request, answers

ASKED: Counter[int] = Counter()


def provider(request: Request) -> Answer:
    """What the provider does: a busy moment, an answer cut short by its token limit, and at last a spent rate."""
    number: int = request.json()["lesson"]
    ASKED[number] += 1
    if number == 2 and ASKED[number] == 1:
        return answers.openai.overloaded()
    if number == 3 and ASKED[number] == 1:
        return answers.openai.ok('{"title": "Less', finish_reason="length")
    if number >= 5:
        return answers.openai.rate_limited(2000)
    return answers.openai.ok(json.dumps({"title": f"Lesson {number}"}))


async def write_course(url: str, database: sqlite3.Connection) -> list[steadycall.UnitResult]:
    """Every lesson that has no text yet; run it again later for those that are left."""
    policy = steadycall.Policy(tries=3, base=0.001)
    group = steadycall.UnitGroup(policy, runtime_limit=3600, call_limit=600, max_requests_per_unit=6, on_unit=show)
    at_once = asyncio.Semaphore(2)

    async def one(number: int) -> steadycall.UnitResult:
        async def call() -> Any:
            return await steadycall.acall(url, {"model": "m", "lesson": number}, base=0.001)

        def validate(answer: Any) -> Any:
            text = answer["choices"][0]["message"]["content"]
            json.loads(text)  # a ValueError: the unit asks once more
            return text

        def save(text: str) -> None:
            with database:
                database.execute("UPDATE lessons SET text = ? WHERE number = ?", (text, number))

        def alive() -> object:
            return database.execute("SELECT 1 FROM lessons WHERE number = ?", (number,)).fetchone()

        async with at_once:
            return await group.arun(call=call, validate=validate, save=save, alive=alive, name=f"lesson {number}")

    unwritten = [number for (number,) in database.execute("SELECT number FROM lessons WHERE text IS NULL")]
    # Somebody deletes a lesson while it is being written.
    database.execute("DELETE FROM lessons WHERE number = 4")
    return await asyncio.gather(*map(one, unwritten))


def show(unit: steadycall.UnitRecord) -> None:
    """Told once for each unit; a counter of your metrics library would stand here."""
    tokens = 0 if unit.usage is None else unit.usage["total_tokens"]
    print(f"{unit.name}: {unit.outcome}, {unit.requests} requests, {tokens} tokens", unit.cause or "", sep="  ")


async def main() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE lessons (number INTEGER, text TEXT)")
    database.executemany("INSERT INTO lessons VALUES (?, NULL)", [(number,) for number in range(1, 9)])
    async with FakeServer() as server:
        server.answer(answers.openai.path, provider)
        results = await write_course(server.url_for(answers.openai.path), database)
    print(dict(Counter(str(result.outcome) for result in results)))
    print(database.execute("SELECT number, text FROM lessons WHERE text IS NOT NULL").fetchall())
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
