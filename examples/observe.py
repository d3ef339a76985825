"""What a call tells while it runs and when it ends: the log, `on_retry` and `on_end`."""

from __future__ import annotations

import logging
import sys

import steadycall
from steadycall.testing import FakeServer, answers


def on_retry(record: steadycall.AttemptRecord) -> None:
    """Told before each wait; a counter of your metrics library would stand here."""
    print(f"retry_total{{kind={record.kind}, status={record.status}}} += 1")


def on_end(record: steadycall.CallRecord) -> None:
    """Told once, for successes and failures alike."""
    print(f"{record.outcome}: {record.requests} requests, {len(record.attempts)} attempts, usage {record.usage}")


def main() -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with FakeServer(answers.gemini.rate_limited("2s"), answers.gemini.ok("Hi.")) as server:
        waits: list[float] = []
        steadycall.call(server.url, {"contents": []}, sleep=waits.append, on_retry=on_retry, on_end=on_end)


if __name__ == "__main__":
    main()
