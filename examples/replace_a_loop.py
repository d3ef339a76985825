"""A hand-written retry loop, and the call that replaces it: the same arguments, the same `except`, fewer surprises.

Both are run against the same server.
The loop waits for a quota that only tomorrow fills up; the call ends at once.
"""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import steadycall
from steadycall.testing import FakeServer, answers


def loop(url: str, payload: Any, *, tries: int = 5, base: float = 1.0, sleep: Callable[[float], object]) -> Any:
    """The loop many code bases have."""
    body = json.dumps(payload).encode()
    for attempt in range(tries):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 500, 503, 504) or attempt == tries - 1:
                raise
            asked = error.headers.get("Retry-After")
            sleep(float(asked) if asked else random.uniform(0, base * 2**attempt))
    raise AssertionError("not reached")


def compare(name: str, ask: Callable[..., Any]) -> None:
    waits: list[float] = []
    with FakeServer(answers.gemini.daily_quota("20s")) as server:
        try:
            ask(server.url, {"contents": []}, sleep=waits.append)
        except urllib.error.HTTPError as error:  # steadycall.HTTPStatusError is one
            print(f"{name}: HTTP {error.code} after {len(server.requests)} requests and {sum(waits):.1f} s of waiting")


if __name__ == "__main__":
    compare("the loop", loop)
    compare("steadycall.call", steadycall.call)
