"""``steadycall demo``: what steadycall does with what servers do.

Starts a server that fails on purpose, plays one scenario after the other against it, and prints every attempt, status,
hint, wait and outcome. Waits go to a fake sleep, so the whole of it takes a second or two.
"""

from __future__ import annotations

import asyncio
import os
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import steadycall
from steadycall.cli.paint import BOLD, DIM, GREEN, RED, YELLOW, Paint
from steadycall.testing import Answer, FakeServer, Request, answers

WIDTH = 98
INDENT = 14
gemini, openai, anthropic = answers.gemini, answers.openai, answers.anthropic


@dataclass
class Scenario:
    """What the server does, how it is called, and what is worth noting about it."""

    does: str
    script: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    note: str | Callable[[list[float]], str] = ""
    path: str = gemini.path


SCENARIOS = [
    Scenario(
        "fails with 503 twice, then answers",
        [gemini.overloaded(), gemini.overloaded(), gemini.ok("Hi.")],
        note=lambda waits: f"full jitter: {waits[0]:.2f} s of at most 1, then {waits[1]:.2f} s of at most 2",
    ),
    Scenario(
        "answers 429 and asks for 2 s, then answers",
        [gemini.rate_limited("2s"), gemini.ok("Hi.")],
        note="waited exactly as long as it was asked to",
    ),
    Scenario(
        "answers 429 and asks for 2970.938289688 s",
        [gemini.rate_limited("2970.938289688s")],
        note="saved 49 minutes of waiting; the error's retry_after tells a queue when to come back",
    ),
    Scenario(
        "answers 400",
        [gemini.bad_request()],
        note="saved 4 requests that would have failed in the same way",
    ),
    Scenario(
        "answers 503 for ever; tries=3",
        [gemini.overloaded()],
        {"tries": 3},
        note=lambda waits: f"{len(waits)} waits, 3 requests, and the 503 itself is raised",
    ),
    Scenario(
        "answers 429: the daily quota is gone, with a hint of 20 s",
        [gemini.daily_quota("20s")],
        note="saved 4 waits of 20 s each: the quota comes back tomorrow",
    ),
    Scenario(
        "answers 429 and asks for 90 s in Retry-After",
        [openai.rate_limited(90)],
        note="saved 90 s of a blocked worker: that is longer than max_wait",
        path=openai.path,
    ),
    Scenario(
        "answers 429: the account has no credit",
        [openai.insufficient_quota()],
        note="saved 4 waits: the status says 429, and only a payment heals it",
        path=openai.path,
    ),
    Scenario(
        "is overloaded (529), then answers",
        [anthropic.overloaded(), anthropic.ok("Hi.")],
        path=anthropic.path,
    ),
    Scenario(
        "cuts a good answer short, then sends it whole",
        [gemini.ok("A long answer.").replace(truncate=40), gemini.ok("A long answer.")],
        note="saved an exception from the JSON parser, far from its cause",
    ),
    Scenario(
        "resets the connection, then answers",
        [Answer(reset="before"), gemini.ok("Hi.")],
    ),
    Scenario(
        "never answers; timeout=0.15",
        [Answer(never=True)],
        {"timeout": 0.15},
        note="saved 3 requests: the model may be at work, and each may be billed",
    ),
    Scenario(
        "asks for 4 s each time; deadline=10",
        [gemini.rate_limited("4s")],
        {"deadline": 10},
        note="saved 2 s: the third wait would have ended at 12 s, so the call ended at 8 s",
    ),
    Scenario(
        "is slower than the deadline of 0.2 s",
        [gemini.ok("Too late.").replace(delay=3)],
        {"deadline": 0.2},
        note="saved 2.8 s of waiting for an answer nobody wants any more",
    ),
    Scenario(
        "answers 200 with an error object inside, then a real answer",
        [Answer(json={"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down."}}), gemini.ok()],
        note="saved a KeyError in the caller: it is classified as the 429 that it is",
    ),
    Scenario(
        "is not even asked: tries=0 makes no sense",
        [gemini.ok()],
        {"tries": 0},
        note="a value that makes no sense is refused before anything is sent",
    ),
    Scenario(
        "answers at once",
        [gemini.ok("Hi.")],
    ),
]


paint = Paint()


def main() -> None:
    """Play every scenario."""
    # The server is on this machine, and no proxy of the environment could reach it.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    began = time.perf_counter()
    slept = 0.0
    print(paint(BOLD, f"steadycall {steadycall.__version__}: what it does with what a server does"))
    print(paint(DIM, "Waits go to a fake sleep: sleep=waits.append. Nothing here takes as long as it says."))
    for number, scenario in enumerate(SCENARIOS, 1):
        slept += play(number, scenario)
    slept += asyncio.run(many_at_once(len(SCENARIOS) + 1))
    print()
    took = time.perf_counter() - began
    print(f"{len(SCENARIOS) + 1} scenarios, {slept:.1f} s of waits not slept, in {took:.1f} s.")


def play(number: int, scenario: Scenario) -> float:
    """One scenario against a server of its own; returns the seconds that were not slept."""
    waits: list[float] = []
    records: list[steadycall.CallRecord] = []
    title(number, scenario.does)
    with FakeServer() as server:
        server.script(scenario.path, scenario.script)
        try:
            answer = steadycall.call(
                server.url_for(scenario.path),
                {"contents": [{"parts": [{"text": "Hello?"}]}]},
                sleep=waits.append,
                on_end=records.append,
                rng=7,
                **scenario.options,
            )
        except steadycall.Error as error:
            outcome, told, colour = type(error).__name__, str(error), RED
        else:
            outcome, told, colour = "answered", text_of(answer), GREEN
    for record in records[0].attempts if records else ():
        print_attempt(record)
    print_block("outcome", f"{outcome}: {told}", colour)
    if scenario.note:
        print_block("note", scenario.note(waits) if callable(scenario.note) else scenario.note)
    return sum(waits)


async def many_at_once(number: int) -> float:
    """Fifty calls in flight in one event loop, a third of them hitting a failure first."""
    waits: list[float] = []
    title(number, "takes 0.1 s for an answer and fails every third call at first: 50 at once, acall")
    met: set[int] = set()

    def busy(request: Request) -> Answer:
        number = request.json()["n"]
        fails = number % 3 == 2 and number not in met
        met.add(number)
        return gemini.overloaded() if fails else gemini.ok("Hi.").replace(delay=0.1)

    async with FakeServer(busy) as server:
        began = time.perf_counter()
        found = await asyncio.gather(
            *(steadycall.acall(server.url_for(gemini.path), {"n": n}, sleep=waits.append) for n in range(50))
        )
        took = time.perf_counter() - began
        requests = len(server.requests)
    good = sum(text_of(answer) == '"Hi."' for answer in found)
    told = f"50 calls, {good} answers from {requests} requests, {len(waits)} retries, in {took:.2f} s"
    print_block("outcome", f"answered: {told}", GREEN)
    print_block("note", f"one after the other they would have taken {50 * 0.1:.0f} s")
    return sum(waits)


def title(number: int, does: str) -> None:
    print()
    print(paint(BOLD, f"{number:2}  The server {does}"))


def print_attempt(record: steadycall.AttemptRecord) -> None:
    """Attempt, status, the provider's code, the hint with its source, and the wait, in columns."""
    status = "---" if record.status is None else str(record.status)
    colour = GREEN if record.kind is None else RED if record.kind == "permanent" else YELLOW
    kind = "good" if record.kind is None else str(record.kind)
    code = record.provider_code or ("no whole answer" if record.status is None else "")
    asks = "" if record.hint is None else f"asks {round(record.hint, 3):.15g} s ({record.hint_source})"
    wait = "" if record.wait is None else f"waits {record.wait:.3f} s"
    print(f"    attempt {record.number}  {paint(colour, status)}  {kind:<13} {code:<20} {asks:<27} {wait}".rstrip())


def print_block(label: str, text: str, colour: str = "") -> None:
    """A labelled text, folded to the width; the word before its first colon is what the colour is for."""
    first, *more = textwrap.wrap(text, WIDTH - INDENT)
    head, colon, rest = first.partition(": ") if colour else ("", "", first)
    print(f"    {paint(DIM, f'{label:<{INDENT - 4}}')}{paint(colour, head)}{colon}{rest}")
    for line in more:
        print(" " * INDENT + line)


def text_of(answer: Any) -> str:
    """The model's words, in any of the three shapes used here."""
    if "candidates" in answer:
        words = answer["candidates"][0]["content"]["parts"][0]["text"]
    else:
        words = answer["content"][0]["text"]
    return f'"{words}"'
