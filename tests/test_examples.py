"""No example without a run: each file of examples/ runs as a user would run it, and the tests in it pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_there_are_examples_and_the_readme_names_each() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(EXAMPLES) >= 4
    assert [path.name for path in EXAMPLES if f"examples/{path.name}" not in readme] == []


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    if example.name.startswith("test_"):
        assert "passed" in run("-m", "pytest", "-q", str(example))
    else:
        assert run(str(example)).strip()


@pytest.mark.slow
def test_the_demo_fits_100_columns_and_has_no_colour_when_piped() -> None:
    printed = run("examples/demo.py")
    assert "\x1b" not in printed
    assert [line for line in printed.splitlines() if len(line) > 100] == []


@pytest.mark.slow
def test_the_demo_shows_attempt_status_hint_wait_and_outcome_of_the_documented_scenarios() -> None:
    # A continuation line is put back behind its line, so that a sentence is found wherever it was folded.
    printed = re.sub(r"\n {14}", " ", run("examples/demo.py"))
    for sign in (
        r"503\b.*waits +\d",
        r"429\b.*2 s \(RetryInfo\).*waits +2\.000 s",
        r"2970\.938 s \(RetryInfo\)",
        r"HTTPStatusError: HTTP 400",
        r"all 3 tries are used up",
        r"quota is used up",
        r"DeadlineExceeded",
        r"AttemptTimeout",
        r"ConfigError",
        r"50 calls",
    ):
        assert re.search(sign, printed), sign
