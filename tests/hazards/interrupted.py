"""Calls, is interrupted, prints when that was felt, and lives on until its input ends. Arguments: scenario, URL.

That it lives on matters: a process that ends closes its sockets, whatever the package does.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from typing import Any

import steadycall

URL = sys.argv[2]


def say(**what: Any) -> None:
    # The monotonic clock is the system's, so that the test can subtract its own reading.
    print(json.dumps({"at": time.monotonic()} | what), flush=True)


def in_io() -> None:
    try:
        steadycall.call(URL, {}, timeout=20)
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt")


def in_sleep() -> None:
    try:
        steadycall.call(URL, {}, on_retry=lambda record: say(waits=record.wait))
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt")


def in_asyncio() -> None:
    try:
        asyncio.run(steadycall.acall(URL, {}, timeout=20))
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt")


def by_a_handler_that_raises() -> None:
    class Enough(Exception):
        pass

    def handler(*_: Any) -> None:
        raise Enough

    signal.signal(signal.SIGINT, handler)
    try:
        steadycall.call(URL, {}, timeout=20)
    except Enough:
        say(felt="Enough")


def by_a_handler_that_returns() -> None:
    signal.signal(signal.SIGINT, lambda *_: say(felt="handler"))
    say(answer=steadycall.call(URL, {"id": 1}))


def in_another_thread() -> None:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(steadycall.call(URL, {"id": 1})))
    thread.start()
    try:
        time.sleep(20)
    except KeyboardInterrupt:
        say(felt="KeyboardInterrupt")
    thread.join()
    say(answer=answers[0])


def and_calls_again() -> None:
    in_io()
    say(answer=steadycall.call(f"{URL}/again", {"id": 2}))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.stdin.read()
