"""Stderr that nobody may be there to read: what cannot be written is dropped, for no run is to end for want of a reader."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO


class Unheard:
    """A stream of text as it is, but that a write to it never fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it, or drop it."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError) as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """The same for what is still in the buffer."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """What is left in the buffer must not fail once more, not even at exit, where it would change the exit code."""
        if isinstance(error, BlockingIOError):
            return  # full for the moment: the next line may get through
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass  # no file of the system is behind it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
