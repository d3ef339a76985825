"""Runs what differs between Pythons under each other Python of this machine, on the one abi3 wheel.

Called by `make test-pythons`. What a Python of another version may break is how exceptions are built, copied and
pickled, and whether the module loads and calls at all: those tests run, in a virtual environment for each version.
A version that is not on this machine is said, and is no failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
TESTS = ["test_errors*.py", "test_exceptions*.py", "test_testing_paste.py"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", default="quick", help="the Cargo profile of the wheel")
    options = parser.parse_args()
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {version: find(version) for version in VERSIONS if version != running}
    for version, python in found.items():
        print(f"python{version}: {python or 'not on this machine, left out'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = None
        for version, python in found.items():
            if python is not None:
                wheel = wheel or build(options.profile, Path(folder))
                if not test(version, python, wheel):
                    print(f"the tests failed under python{version}", file=sys.stderr)
                    return 1
    return 0


def find(version: str) -> Path | None:
    """The first Python of a version that runs and can make a virtual environment; a shim may be there and fail."""
    question = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for candidate in candidates(version):
        try:
            done = subprocess.run([candidate, "-c", question], capture_output=True, check=False, timeout=30)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


def candidates(version: str) -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder, f"python{version}")
        if path.is_file():
            yield path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def build(profile: str, folder: Path) -> Path:
    """The wheel of what is built already: Cargo has nothing left to compile."""
    maturin = Path(sys.executable).with_name("maturin")
    command: list[str | Path] = [
        maturin,
        "build",
        "--quiet",
        "--locked",
        "--profile",
        profile,
        "--compatibility",
        "linux",
    ]
    if not sys.platform.startswith("linux"):
        command = command[:-2]
    subprocess.run([*command, "--out", folder], check=True, cwd=ROOT)
    return next(folder.glob("*.whl"))


def test(version: str, python: Path, wheel: Path) -> bool:
    venv = ROOT / f".venv-{version}"
    inside = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip: list[str | Path] = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not inside.exists():
        subprocess.run([python, "-m", "venv", "--clear", venv], check=True)
    tools = ["pytest", "pytest-timeout", "hypothesis"]
    subprocess.run([*pip, "-c", ROOT / "requirements-dev.txt", *tools], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    chosen = [path for pattern in TESTS for path in sorted((ROOT / "tests").glob(pattern))]
    print(f"python{version}: {', '.join(path.name for path in chosen)}", flush=True)
    # -P: the wheel is tested, and not the tree it was built from.
    done = subprocess.run([inside, "-P", "-m", "pytest", "-q", *chosen], cwd=ROOT, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
