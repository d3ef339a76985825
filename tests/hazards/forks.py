"""Makes calls, forks, and prints how many children got their own answer. Arguments: a scenario and an echo's URL.

Every request carries a number that nobody else in any process uses, and the server echoes it.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable

import steadycall

URL = sys.argv[2]
CHILDREN = 100
SECONDS_TO_LIVE = 30  # a child that hangs is ended by SIGALRM, and counts as wrong

numbers = itertools.count()


def ask(number: int) -> bool:
    return steadycall.call(URL, {"id": number, "pid": os.getpid()}) == {"id": number, "pid": os.getpid()}


async def aask(number: int) -> bool:
    return await steadycall.acall(URL, {"id": number, "pid": os.getpid()}) == {"id": number, "pid": os.getpid()}


async def aask_many() -> bool:
    return all(await asyncio.gather(*(aask(next(numbers)) for _ in range(10))))


def ask_both_ways() -> bool:
    return ask(next(numbers)) and ask(next(numbers)) and asyncio.run(aask_many()) and ask(next(numbers))


def children(fork: Callable[[], int], count: int = CHILDREN, leave: Callable[[int], object] = os._exit) -> int:
    """Forks that many children who live at the same time; how many of them got their own answers."""
    living = []
    for number in range(count):
        child = fork()
        if child == 0:
            signal.alarm(SECONDS_TO_LIVE)
            right = False
            try:
                right = asyncio.run(aask(number)) if number % 2 else ask(number) and ask(number + count)
            finally:
                leave(0 if right else 1)
        living.append(child)
    return sum(os.waitpid(child, 0)[1] == 0 for child in living)


def after_calls() -> tuple[int, bool]:
    before = ask_both_ways()
    right = children(os.fork)
    return right, before and ask_both_ways()


def while_threads_call() -> tuple[int, bool]:
    return ask_both_ways() and children_of_busy_threads(4, CHILDREN)


def during_the_first_calls() -> tuple[int, bool]:
    # What is made or looked up once in a process is being made just now, by threads that no child has.
    right = 0
    for _ in range(CHILDREN // 10):
        parent = os.fork()  # in which nothing was looked up yet
        if parent == 0:
            signal.alarm(SECONDS_TO_LIVE + 10)
            os._exit(ten_of_a_parent_that_begins())
        if os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) != 0:
            return right, False
        right += 10
    return right, True


def ten_of_a_parent_that_begins() -> int:
    enough = threading.Event()

    def want_the_gil() -> None:  # so that whoever lets go of it amid a look-up waits long to go on
        while not enough.is_set():
            pass

    for _ in range(2):
        threading.Thread(target=want_the_gil).start()
    outcome = children_of_busy_threads(2, 10)
    enough.set()
    return 0 if outcome == (10, True) else 1


def children_of_busy_threads(threads: int, count: int) -> tuple[int, bool]:
    enough = threading.Event()
    answers = []

    def call_on() -> None:
        while not enough.is_set():
            answers.append(ask(next(numbers)))

    def acall_on() -> None:
        while not enough.is_set():
            answers.append(asyncio.run(aask_many()))

    busy = [threading.Thread(target=(acall_on, call_on)[number % 2]) for number in range(threads)]
    for thread in busy:
        thread.start()
    right = children(os.fork, count)
    enough.set()
    for thread in busy:
        thread.join()
    return right, bool(answers) and all(answers) and ask_both_ways()


def from_another_thread() -> tuple[int, bool]:
    before = ask_both_ways()
    found = []
    thread = threading.Thread(target=lambda: found.append(children(os.fork)))
    thread.start()
    thread.join()
    return found[0], before and ask_both_ways()


def without_hooks() -> tuple[int, bool]:
    # A C library's fork: Python is not told, so os.register_at_fork does not run. PyDLL keeps the GIL for the child.
    before = ask_both_ways()
    right = children(ctypes.PyDLL(None).fork)
    return right, before and ask_both_ways()


def that_end_like_any_process() -> tuple[int, bool]:
    # With the whole end of an interpreter, in place of _exit: what was inherited must not be joined or dropped there.
    before = ask_both_ways()
    right = children(os.fork, leave=sys.exit)
    return right, before and ask_both_ways()


def grandchildren() -> tuple[int, bool]:
    before = ask_both_ways()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_TO_LIVE)
        os._exit(children(os.fork) if ask_both_ways() else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), before and ask_both_ways()


def multiprocessing_pool() -> tuple[int, bool]:
    before = ask_both_ways()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        right = pool.map_async(ask, range(CHILDREN), chunksize=1).get(SECONDS_TO_LIVE)
    return sum(right), before and ask_both_ways()


if __name__ == "__main__":
    right, parent_right = globals()[sys.argv[1]]()
    print(json.dumps({"right": right, "parent_right": parent_right}))
