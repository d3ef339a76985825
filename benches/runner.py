"""Runs the server and the measurements, each in a process of its own; knows nothing of goals and tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from works import FLOOR, Work

HERE = Path(__file__).parent
MANIFEST = HERE / "Cargo.toml"
# By metric: cpu_us and peak_kib are per request, wall_ms is the whole measurement, rps requests per second.
Sample = dict[str, float]


class Failed(Exception):
    """A measurement that ended badly, with the last line it said."""


def build() -> Path:
    """Builds the server and the floor and returns where they are, wherever Cargo was told to put them."""
    subprocess.run(["cargo", "build", "--release", "--locked", "--manifest-path", MANIFEST], check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps", "--manifest-path", MANIFEST],
        check=True,
        stdout=subprocess.PIPE,
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / "release"


@contextmanager
def serving(binaries: Path) -> Iterator[str]:
    """The base URL of a server that lives as long as this context: it ends when its standard input closes."""
    with subprocess.Popen([binaries / "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()


class Runner:
    """Measures one thing at a time against one server."""

    def __init__(self, binaries: Path, base: str, seconds: float, note: Callable[[str], None]) -> None:
        self._binaries = binaries
        self._base = base
        self._seconds = seconds
        self._note = note
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        # A proxy would be measured in our place.
        self._environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self._environment["no_proxy"] = "127.0.0.1"

    def calibrate(self, work: Work, client: str) -> Sample:
        """Finds how many requests take about the wanted time; also warms the disk cache and the byte code."""
        if work.fixed:
            self._counts[work.name, client] = (work.pilot, 1)
            return self._traffic(work, client, work.pilot, 1)
        sample = self._traffic(work, client, work.pilot, work.in_flight)
        # All connections open before the measurement and used some times in it, unless that would take seconds.
        rps, wanted = sample["rps"], int(sample["rps"] * self._seconds)
        count = max(wanted, work.in_flight, min(4 * work.in_flight, int(rps)), 8)
        warmup = max(wanted // 3, min(2 * work.in_flight, int(rps / 2)), 8)
        self._counts[work.name, client] = (count, warmup)
        return sample

    def measure(self, work: Work, client: str) -> Sample:
        """One round of one client, which must have been calibrated."""
        return self._traffic(work, client, *self._counts[work.name, client])

    def _traffic(self, work: Work, client: str, count: int, warmup: int) -> Sample:
        arguments = [work.mode, f"{self._base}{work.path}", str(count), str(warmup)]
        if client == FLOOR:
            mode, url, *rest = arguments
            output = self._run(str(self._binaries / "floor"), url, mode, *rest)
        else:
            output = self._run(sys.executable, str(HERE / "worker.py"), client, *arguments)
        report = json.loads(output)
        sample = {
            "cpu_us": report["cpu_s"] / count * 1e6,
            "wall_ms": report["wall_s"] * 1e3,
            "rps": count / report["wall_s"],
        }
        if report["peak_kib"] is not None and report["rss_kib"] is not None:
            sample["peak_kib"] = (report["peak_kib"] - report["rss_kib"]) / count
        return sample

    def import_time(self, module: str) -> Sample:
        wall, cpu = self._startup("import", module).split()
        return {"wall_ms": float(wall), "cpu_ms": float(cpu)}

    def first_call(self, client: str) -> Sample:
        wall, cpu = self._startup("first", client, f"{self._base}/small").split()
        return {"wall_ms": float(wall), "cpu_ms": float(cpu)}

    def modules(self) -> dict[str, list[str]]:
        """The modules first imported during a call, by kind of call."""
        found = {}
        for line in self._startup("modules", self._base).splitlines():
            kind, _, names = line.partition(":")
            found[kind] = names.split(",") if names else []
        return found

    def _startup(self, *arguments: str) -> str:
        return self._run(sys.executable, str(HERE / "startup.py"), *arguments)

    def _run(self, *command: str) -> str:
        try:
            done = subprocess.run(
                command, env=self._environment, capture_output=True, text=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired:
            raise Failed("no end after 120 s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            said = next((line for line in lines if line.startswith("Fatal")), lines[-1])[:200]
            if not done.stdout.strip():
                raise Failed(said)
            # Everything is printed at once and last, so the figures are whole.
            what = " ".join(Path(part).name for part in command[1:] if "://" not in part and not part.isdigit())
            self._note(f"{what}: measured, then ended with code {done.returncode}: {said}")
        return done.stdout
