"""No sample without a run: every ``python`` block of README.md and docs/*.md is executed.

The blocks of a page share one namespace, in order. What a reader should not have to read stands in a comment in front
of a block and runs first:

    <!-- sample
    server.answer("/v1/chat/completions", 503, answers.openai.ok())
    -->

- ``server`` is a running ``FakeServer``, ``answers`` its ready-made answers, and ``waits`` the list of waits nobody
  slept. ``https://llm.example`` in a block is the server's address. ``monkeypatch`` is pytest's.
- A block that defines a test runs it as pytest would; its parameters are fixtures.
- ``expect(...)`` in a comment behind a block checks what the block printed.

Blocks in other languages must be one of those named below, so that no sample escapes by a typing mistake.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from steadycall.testing import FakeServer, FakeSleep, answers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = {"sh", "text", "toml", "rust", "make"}
PLACEHOLDER = "https://llm.example"
# What a page's samples are about and the quick tests do without.
NEEDED = {
    "migration": ("anthropic", "backoff", "google.genai", "httpx_retries", "openai", "stamina", "tenacity", "urllib3"),
    "sdks": ("httpx", "openai"),
}


class Sample(NamedTuple):
    """A block, or a comment to run, and the line its first line stands on."""

    line: int
    source: str


class Fence(NamedTuple):
    """A fenced block of any language."""

    language: str
    sample: Sample


BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<block>.*?)^(?P=fence)\n|^<!-- sample\n(?P<hidden>.*?)^-->\n",
    re.M | re.S,
)


def fences(page: Path) -> Iterator[Fence]:
    text = page.read_text()
    for found in BLOCK.finditer(text):
        group = "block" if found["hidden"] is None else "hidden"
        language = "python" if found["hidden"] is not None else found["language"].strip()
        yield Fence(language, Sample(text.count("\n", 0, found.start(group)) + 1, found[group]))


def test_every_block_is_python_or_of_a_known_other_language() -> None:
    found = {(page.name, fence.language) for page in PAGES for fence in fences(page)}
    assert {entry for entry in found if entry[1] not in NOT_RUN | {"python"}} == set()


def test_no_line_that_looks_like_a_fence_is_missed() -> None:
    for page in PAGES:
        opened = [fence for fence in fences(page) if f"```{fence.language}" in page.read_text()]
        assert page.read_text().count("\n```") <= 2 * len(opened), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_samples_of_a_page_run(
    page: Path,
    request: pytest.FixtureRequest,
    fake_sleep: FakeSleep,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for package in NEEDED.get(page.stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    for package in NEEDED.get(page.stem, ()):
        pytest.importorskip(package)
    with FakeServer() as server:
        names: dict[str, Any] = {
            "__name__": "sample",
            "answers": answers,
            "expect": Expect(capsys),
            "monkeypatch": monkeypatch,
            "server": server,
            "waits": fake_sleep,
        }
        for fence in fences(page):
            if fence.language == "python":
                run(page, fence.sample, server, names, request)


def run(page: Path, sample: Sample, server: FakeServer, names: dict[str, Any], request: pytest.FixtureRequest) -> None:
    before = dict(names)
    # The lines in front keep a traceback's line numbers those of the page.
    source = "\n" * (sample.line - 1) + sample.source.replace(PLACEHOLDER, server.url)
    exec(compile(source, str(page), "exec", dont_inherit=True), names)
    for name, value in list(names.items()):
        if name.startswith("test_") and value is not before.get(name) and inspect.isfunction(value):
            arguments = {wanted: request.getfixturevalue(wanted) for wanted in inspect.signature(value).parameters}
            names["waits"].clear()
            if arguments or f"\n{name}()" not in sample.source:
                done = value(**arguments)
                if inspect.iscoroutine(done):
                    asyncio.run(done)


class Expect:
    """What the samples since the last look printed must contain this text."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *texts: str) -> None:
        printed = self._capsys.readouterr().out
        for text in texts:
            assert text in printed, f"{text!r} is not in what was printed: {printed!r}"
