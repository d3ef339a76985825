"""The command as a whole: that it runs as itself and as a module, its help, its exit codes, and that pipes are honoured."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import steadycall
from steadycall import cli
from steadycall.cli.app import app
from steadycall.cli.paint import Paint, as_json, writes

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"


def run(*arguments, stdin="", **environment):
    return subprocess.run(
        [sys.executable, "-m", "steadycall", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_the_module_is_the_command():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"steadycall {steadycall.__version__}\n", "")


def test_the_installed_command_is_the_same_function():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["steadycall"].partition(":")
    assert getattr(import_module(module), name) is cli.main


def test_the_extra_brings_what_the_command_looks_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert tuple(re.split("[<>=]", one)[0] for one in extras["cli"]) == cli._NEEDED


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing):
    hidden = (
        f"import sys, importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if n == {missing!r} else f(n)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}; from steadycall.cli import main; sys.exit(main(['--help']))"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"steadycall: the command needs {missing}: pip install 'steadycall[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_nothing_of_the_extra_is_loaded_with_the_package():
    code = "import sys, steadycall.cli, steadycall.cli.demo; print({'click', 'rich'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "set()\n"


@pytest.mark.parametrize("name", sorted(app.commands))
def test_help_has_an_example_that_names_the_command(capsys, name):
    assert cli.main([name, "--help"]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"Examples?:\n(.*\n)*? +.*steadycall {name}", printed)
    assert [line for line in printed.splitlines() if len(line) > 100] == []


def test_every_field_of_a_policy_that_a_line_can_hold_is_an_option(capsys):
    # What is left out takes Python: types, callables.
    cli.main(["explain", "--help"])
    printed = capsys.readouterr().out
    fields = set(steadycall.Policy.__init__.__kwdefaults__) - {"retry_on", "retry_if", "retry_exhausted"}
    assert [name for name in fields if not re.search(rf"--(no-)?{name.replace('_', '-')}\b", printed)] == []


def test_a_call_for_nothing_is_a_wrong_use_with_the_help_on_stderr(capsys):
    assert cli.main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Commands:" in printed.err


def test_a_command_that_is_none_is_told_in_one_line(capsys):
    assert cli.main(["nonsense"]) == 2
    assert capsys.readouterr() == ("", "steadycall: No such command 'nonsense'. (see steadycall --help)\n")


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_it_without_a_word():
    piped = f"{sys.executable} -m steadycall explain --tries 200 | head -n 1; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(["bash", "-c", piped], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Policy(tries=200)\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full is Linux's")
def test_a_full_disk_is_told_in_one_line():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-m", "steadycall", "explain"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"steadycall: [Errno 28] No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_as_an_empty_one(closed):
    command = f"{sys.executable} -m steadycall classify --status 503 {closed}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(["sh", "-c", command], env=environment, input=b"", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) is (closed != ">&-")


@pytest.mark.slow
def test_the_demo_reaches_its_server_past_any_proxy_and_has_no_colour_when_piped():
    done = run("demo", HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="", no_proxy="")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"503\b.*waits +\d", done.stdout)
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 100] == []


class Stream:
    def __init__(self, terminal=True, encoding="utf-8"):
        self.isatty = lambda: terminal
        self.encoding = encoding


@pytest.mark.parametrize(
    ("environment", "terminal", "colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, environment, terminal, colours):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (Paint(Stream(terminal))("31", "red") == "\x1b[31mred\x1b[0m") is colours


def test_signs_are_asked_of_the_encoding():
    assert writes("█░", Stream())
    assert not writes("█", Stream(encoding="latin-1"))
    assert not writes("█", Stream(encoding=None))


def test_json_has_no_number_that_json_does_not_know():
    found = as_json({"a": math.inf, "b": [-math.inf, {"c": (math.nan, 1.5)}]})
    assert json.loads(found) == {"a": None, "b": [None, {"c": [None, 1.5]}]}


def samples():
    """The commands of the page, each with what it prints there."""
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S):
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M):
            yield pytest.param(command, printed, id=command[:40])


@pytest.mark.slow
@pytest.mark.parametrize(("command", "printed"), list(samples()))
def test_a_sample_of_the_page_prints_what_the_page_says(tmp_path, command, printed):
    (tmp_path / "steadycall").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m steadycall "$@"\n')
    (tmp_path / "steadycall").chmod(0o755)
    (tmp_path / "took.txt").write_text("".join(f"{n / 10}\n" for n in range(1, 201)))
    body = {"model": "some-model", "max_tokens": 500, "messages": [{"role": "user", "content": "Hello?"}]}
    row = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    rows = [json.dumps({"custom_id": f"row {number}", **row}) + "\n" for number in range(200)]
    (tmp_path / "in.jsonl").write_text("".join(rows))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PATH": path, "PYTHONUTF8": "1"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout + done.stderr == printed
