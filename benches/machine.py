"""What a figure was taken with: machine and versions, as the lines of the head of the table."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import clients
from runner import HERE

ROOT = HERE.parent
CRATES = ("reqwest", "hyper", "tokio", "rustls", "serde_json")


def describe() -> list[str]:
    """All that matters to a whole run."""
    rivals = [name for name in clients.IMPORTS if name not in ("steadycall", "urllib")]
    return [
        *setting(),
        f"Rivals: {', '.join(f'{name} {package(name)}' for name in rivals)}; urllib is Python's.",
        f"Crates: {_crates()}.",
    ]


def setting() -> list[str]:
    """The machine, Python and us."""
    load = ", ".join(f"{figure:.1f}" for figure in os.getloadavg())
    system = f"{platform.system()} {platform.release()}"
    tree = _said("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    return [
        f"Machine: {_cpu()}, {os.cpu_count()} cores, {system}, load before the run {load}.",
        f"Python: {platform.python_implementation()} {platform.python_version()}; {_said('rustc', '--version')}.",
        f"steadycall: {package('steadycall')}, tree {tree}.",
    ]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"{command[0]} unknown"


def _crates() -> str:
    """The floor's crates, and a warning where the package is locked to others: they should be the same."""
    floor, ours = _locked(HERE / "Cargo.lock"), _locked(ROOT / "Cargo.lock")
    return ", ".join(
        f"{crate} {floor[crate]}" + ("" if floor[crate] == ours.get(crate) else f" (THE PACKAGE: {ours.get(crate)})")
        for crate in CRATES
    )


def _locked(path: Path) -> dict[str, str]:
    return {package["name"]: package["version"] for package in tomllib.loads(path.read_text())["package"]}
