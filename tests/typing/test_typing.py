"""Types are tested by code that must pass and by code that must not, with the checker users run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def mypy(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--show-error-codes", "--no-error-summary", "--no-pretty", str(HERE / name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_what_users_write_passes() -> None:
    assert mypy("must_pass.py") == ""


@pytest.mark.slow
def test_what_must_not_pass_fails_on_its_line_with_its_code() -> None:
    found: dict[int, set[str]] = defaultdict(set)
    for line in mypy("must_fail.py").splitlines():
        error = re.match(r"tests[/\\]typing[/\\]must_fail\.py:(\d+): error: .*\[([a-z-]+)\]$", line)
        if error:
            found[int(error[1])].add(error[2])
    lines = enumerate((HERE / "must_fail.py").read_text().splitlines(), 1)
    marked = {number: set(line.split("# fails: ")[1].split()) for number, line in lines if "# fails: " in line}
    assert len(marked) > 20
    assert found == marked
