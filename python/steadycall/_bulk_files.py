"""The files of a bulk run: where they lie, and that no two runs write to them at once."""

from __future__ import annotations

import os
from contextlib import suppress

from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, NamedTuple

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
    """Held while a run writes to its files; the system lets go of it when the process dies, however it does.

    Both the journal and the failures are held: either may be what another run was given too.
    """

    def __init__(self, files: Files) -> None:
        self._held: list[tuple[str, BinaryIO, bool]] = []
        try:
            self._hold("output", files.output, files.journal)
            self._hold("failures", files.failures, files.failures)
        except BaseException:
            self.give_back()
            raise

    def _hold(self, name: str, told: str, where: str) -> None:
        fresh = not os.path.exists(where)
        file = open(where, "ab")  # noqa: SIM115 - held until the run is over
        try:
            _lock(file)
        except OSError as error:
            file.close()
            raise ConfigError(name, repr(told), "one that no other run writes to at the moment") from error
        self._held.append((where, file, fresh))

    def give_back(self) -> None:
        """Let go of it after a run that never began, with no trace of it."""
        for where, file, fresh in self._held:
            if fresh and not os.fstat(file.fileno()).st_size:
                with suppress(OSError):  # where an open file cannot be removed, it stays
                    os.unlink(where)
        self.release()

    def release(self) -> None:
        """Let go of it."""
        for _, file, _ in self._held:
            file.close()


def _lock(file: BinaryIO) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: nothing keeps two runs apart there
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
