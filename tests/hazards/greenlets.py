"""Calls in greenlets after gevent's monkey-patching, and prints what came of it. Arguments: scenario, URL."""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402  # patching comes first, as gevent asks
import sys  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402

import steadycall  # noqa: E402

URL = sys.argv[2]


def twenty_at_once() -> dict[str, Any]:
    steadycall.call(f"{URL}/at-once", -1)
    began = time.monotonic()
    greenlets = [gevent.spawn(steadycall.call, URL, number) for number in range(20)]
    gevent.joinall(greenlets)
    return {"took": time.monotonic() - began, "answers": [greenlet.value for greenlet in greenlets]}


def count_during(work: Any) -> tuple[int, Any]:
    """How many turns another greenlet gets, which asks for one each 10 ms."""
    turns = 0

    def count() -> None:
        nonlocal turns
        while True:
            gevent.sleep(0.01)
            turns += 1

    counter = gevent.spawn(count)
    result = work()
    counter.kill()
    return turns, result


def counting_during_io() -> dict[str, Any]:
    turns, answer = count_during(lambda: steadycall.call(URL, 1))
    return {"turns": turns, "answer": answer}


def counting_during_the_wait() -> dict[str, Any]:
    waits: list[float] = []
    turns, answer = count_during(lambda: steadycall.call(URL, 1, on_retry=lambda record: waits.append(record.wait)))
    return {"turns": turns, "answer": answer, "waits": waits}


def told_to_go_on() -> None:
    # Standard input is not patched: read here it would block every greenlet.
    gevent.get_hub().threadpool.apply(sys.stdin.readline)


def killed() -> dict[str, Any]:
    greenlet = gevent.spawn(steadycall.call, URL, 1, timeout=30)
    told_to_go_on()  # the test knows when the server has it
    began = time.monotonic()
    greenlet.kill()
    took = time.monotonic() - began
    print(json.dumps({"took": took}), flush=True)
    told_to_go_on()  # the test has seen the end of the connection, while we still live
    return {"answer": steadycall.call(f"{URL}/after", 2)}


def out_of_time() -> dict[str, Any]:
    began = time.monotonic()
    try:
        with gevent.Timeout(0.2):
            steadycall.call(URL, 1, timeout=30)
    except gevent.Timeout:
        took = time.monotonic() - began
    return {"took": took, "answer": steadycall.call(f"{URL}/after", 2)}


def failing() -> dict[str, Any]:
    def attempt() -> tuple[str, int]:
        try:
            steadycall.call(URL, 1, sleep=lambda _: None)
        except steadycall.HTTPStatusError as error:
            return type(error).__name__, len(error.attempts)
        return "answered", 0

    greenlets = [gevent.spawn(attempt) for _ in range(20)]
    gevent.joinall(greenlets)
    return {"ends": [greenlet.value for greenlet in greenlets]}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
