"""The files of a bulk run: where they lie, and that no two runs write to them at once."""

from __future__ import annotations

import os

from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Files(NamedTuple):
        """The four files of a run."""

        rows: str
        output: str
        failures: str
        journal: str

else:
    from collections import namedtuple

    Files = namedtuple("Files", "rows output failures journal")


def paths(rows: object, output: object, failures: object) -> Files:
    """The files of a run; failures and journal lie beside the output unless told otherwise.

    Raises:
        ConfigError: one is no path, or two of them are the same file.
    """
    given = {"rows": path("rows", rows), "output": path("output", output)}
    stem, suffix = os.path.splitext(given["output"])
    beside = f"{stem}.failures{suffix or '.jsonl'}"
    given["failures"] = beside if failures is None else path("failures", failures)
    given["journal"] = f"{given['output']}.journal"
    seen: dict[str, str] = {}
    for name, where in given.items():
        real = os.path.realpath(where)
        if real in seen:
            raise ConfigError(name, repr(where), f"another file than {seen[real]}")
        seen[real] = name
    return Files(**given)


def path(name: str, given: object) -> str:
    """A path as text."""
    try:
        return os.fsdecode(given)  # type: ignore[arg-type]  # what is none is refused
    except TypeError:
        raise ConfigError(name, type(given).__name__, "a path") from None


class Lock:
    """Held while a run writes to its files; the system lets go of it when the process dies, however it does."""

    def __init__(self, journal: str, output: str) -> None:
        self._file = open(journal, "ab")  # noqa: SIM115 - held until the run is over
        try:
            import fcntl
        except ImportError:  # Windows: nothing keeps two runs apart there
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            allowed = "one that no other run writes to at the moment"
            raise ConfigError("output", repr(output), allowed) from error

    def release(self) -> None:
        """Let go of it."""
        self._file.close()
