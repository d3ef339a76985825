"""Runs a program of this folder in a process of its own, and tells what it said.

The tests load this file with runpy, for pytest's importlib mode gives test files no package to import from.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SIGNS_OF_A_CRASH = ("panicked at", "Fatal Python error", "PanicException", "FATAL: exception not rethrown")
SIGNS_OF_A_FAULT = (*SIGNS_OF_A_CRASH, "never retrieved", "Traceback", "Exception ignored")


def start(program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The program under way, with pipes to its input, output and errors."""
    return subprocess.Popen(
        [sys.executable, str(FOLDER / f"{program}.py"), *arguments],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """Its remaining output, when it ends well within the time; all it said, as a failure, when not."""
    try:
        said, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, errors = process.communicate()
        raise AssertionError(f"still running after {seconds} s\n{said}{errors}") from None
    assert process.returncode == 0, f"ended with {process.returncode}\n{said}{errors}"
    assert [sign for sign in SIGNS_OF_A_FAULT if sign in errors] == [], errors
    return said


def run(program: str, *arguments: str, seconds: float = 60, **environment: str) -> Any:
    """What the program printed on its last line, as JSON."""
    said = end(start(program, *arguments, **environment), seconds)
    return json.loads(said.splitlines()[-1])
