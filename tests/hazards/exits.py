"""Ends with calls in flight: its last statement is the end of the main thread. Arguments: scenario, silent URL, echo URL.

The test waits for the end, and reads the errors for signs of a crash.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
import threading
import time

import steadycall

SILENT, ECHO = sys.argv[2:]


def in_daemon_thread(work: object) -> None:
    threading.Thread(target=work, daemon=True).start()  # type: ignore[arg-type]


def wait_silently() -> None:
    steadycall.call(SILENT, {}, timeout=30)


def call_on() -> None:
    while True:
        steadycall.call(ECHO, {})


async def acall_on() -> None:
    while True:
        await asyncio.gather(*(steadycall.acall(ECHO, {}) for _ in range(10)))


async def many_and(then: object) -> None:
    tasks = [asyncio.create_task(steadycall.acall(SILENT, {}, timeout=30)) for _ in range(10)]
    tasks += [asyncio.create_task(acall_on())]
    await asyncio.sleep(0.2)
    then()  # type: ignore[operator]


def loop_without_end() -> None:
    asyncio.run(acall_on())


def daemon_threads() -> None:
    for work in (wait_silently, wait_silently, call_on, call_on):
        in_daemon_thread(work)
    time.sleep(0.2)


def observers_at_work() -> None:
    # What runs at the moment of the exit is Python code that the native module called.
    def retry_on() -> None:
        while True:
            try:
                steadycall.call(f"{ECHO}/busy", {}, sleep=lambda _: None, on_retry=lambda _: time.sleep(0.001))
            except steadycall.HTTPStatusError:
                pass

    for _ in range(4):
        in_daemon_thread(retry_on)
    time.sleep(0.2)


def loops_in_daemon_threads() -> None:
    for _ in range(4):
        in_daemon_thread(loop_without_end)
    time.sleep(0.3)


def tasks() -> None:
    asyncio.run(many_and(lambda: None))


def a_loop_left_open() -> None:
    # No asyncio.run that would cancel: the loop is just left, with answers on their way to it.
    loop = asyncio.new_event_loop()
    loop.run_until_complete(many_and(lambda: None))
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as meant here


def sys_exit_in_a_task() -> None:
    asyncio.run(many_and(lambda: sys.exit(0)))


def both() -> None:
    for work in (wait_silently, call_on, loop_without_end):
        in_daemon_thread(work)
    time.sleep(0.2)
    a_loop_left_open()


class Slow:
    """Keeps the interpreter ending for a while, so that answers arrive meanwhile."""

    def __del__(self, sleep: object = time.sleep) -> None:
        sleep(0.1)  # type: ignore[operator]


def slowly() -> None:
    globals()["slow"] = Slow()
    atexit.register(time.sleep, 0.05)
    both()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
