"""Ctrl-C: once finishes what is in flight, twice stops now. SIGTERM is a polite first one."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self

    from steadycall import BulkRun


class Stopping:
    """While it is entered, signals stop the run; what was asked is seen in ``asked``.

    The handler only tells the run, which is one flag, and raises nothing: whatever it interrupts goes on.
    """

    def __init__(self, run: BulkRun) -> None:
        self._run = run
        self._before: dict[int, Any] = {}
        self.asked = 0

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked += 1
        if self.asked == 1:
            self._run.stop()
            return
        self._run.abort()
        # Should even that not end it, a third one does what Ctrl-C always did.
        signal.signal(signal.SIGINT, signal.default_int_handler)
