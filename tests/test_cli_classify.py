"""``steadycall classify``: what is read as an HTTP answer, and that it says what the library decides."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib

import pytest

import steadycall
from steadycall.cli import main
from steadycall.cli.answer import NotHTTP, looks_like_one, read_answer
from steadycall.testing import answers

OPENAI = "https://api.openai.com/v1/chat/completions"


def message(answer, *before, line="HTTP/1.1 {} OK"):
    """An answer of the testing kit as ``curl -i`` prints it, behind other header blocks."""
    head = [line.format(answer.status), "content-type: application/json"]
    head += [f"{name}: {value}" for name, value in dict(answer.headers).items()]
    return b"".join(before) + "\r\n".join(head).encode() + b"\r\n\r\n" + json.dumps(answer.json).encode()


class Command:
    """The command run in this process: its exit code, what it printed, and what it said."""

    def __init__(self, capsys, monkeypatch):
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments, stdin=b""):
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self.code = main(["classify", *map(str, arguments)])
        self.out, self.err = self._capsys.readouterr()
        return self

    @property
    def data(self):
        return json.loads(self.out)


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


# Reading a message


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 429 Too Many Requests", b"HTTP/2 429", b"HTTP/2 429 ", b"HTTP/1.0 429 x y"]
)
def test_a_status_line_of_any_version_and_line_end_is_read(line, end):
    found = read_answer(end.join([line, b"Retry-After: 3", b"X-Folded: one", b" two", b"", b"body", b"", b"rest"]))
    assert found.status == 429
    assert found.headers == [("Retry-After", "3"), ("X-Folded", "one two")]
    assert found.body == b"body" + end + end + b"rest"


def test_the_last_of_several_header_blocks_is_the_answer():
    blocks = [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nRetry-After: 9\r\n\r\n",
    ]
    found = read_answer(b"".join(blocks) + b"HTTP/2 503 \r\nretry-after: 4\r\n\r\nbusy")
    assert (found.status, found.headers, found.body) == (503, [("retry-after", "4")], b"busy")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 503",
        b"HTTP/1.1 503\r\n",
        b"HTTP/1.1 503\r\n\r\n",
        b"\r\nHTTP/1.1 503\r\n\r\n",
        b"\xef\xbb\xbfHTTP/2 503\n\n",
    ],
)
def test_an_answer_without_headers_or_body_is_one(said):
    found = read_answer(said)
    assert (found.status, found.headers, found.body) == (503, [], b"")


def test_headers_may_end_with_the_input():
    assert read_answer(b"HTTP/2 429\nretry-after: 3").headers == [("retry-after", "3")]


def test_what_a_windows_shell_wrote_is_read():
    assert read_answer("HTTP/1.1 429 x\r\nRetry-After: 3\r\n\r\n{}".encode("utf-16")).headers == [("Retry-After", "3")]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Transfer-Encoding: chunked", b'4\r\n{"a"\r\n3;x=y\r\n: 1\r\n1\r\n}\r\n0\r\n\r\n'),
        (b"Transfer-Encoding: chunked", b'{"a": 1}'),  # curl has put it together and left the header
        (b"Content-Encoding: gzip", gzip.compress(b'{"a": 1}')),
        (b"Content-Encoding: gzip", b'{"a": 1}'),
        (b"Content-Encoding: deflate", zlib.compress(b'{"a": 1}')),
        (b"Content-Encoding: deflate", b'{"a": 1}'),
    ],
)
def test_what_is_left_of_an_encoding_is_taken_off(headers, body):
    assert json.loads(read_answer(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n" + body).body) == {"a": 1}


@pytest.mark.parametrize("body", [b"4\r\nabc", b"\x1f\x8bno gzip", b"ffffffff\r\nshort\r\n0\r\n\r\n"])
def test_a_broken_encoding_is_left_as_it_is(body):
    assert read_answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body).body == body


@pytest.mark.parametrize("said", [b"", b"hello", b"{}", b"HTTP/1.1", b"HTTP/1.1 4 x\n\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_answer_is_refused(said):
    assert not looks_like_one(said)
    with pytest.raises(NotHTTP, match="no status line"):
        read_answer(said)


def test_a_line_that_is_no_header_is_named():
    with pytest.raises(NotHTTP, match="line 5 is no header"):
        read_answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 x\r\nA: b\r\nno header\r\n\r\n")


# What it says


@pytest.mark.parametrize(
    ("answer", "url"),
    [
        (answers.openai.rate_limited(12), OPENAI),
        (answers.openai.insufficient_quota(), OPENAI),
        (answers.openai.bad_key(), None),
        (answers.gemini.rate_limited("2.5s"), None),
        (answers.gemini.daily_quota(), None),
        (answers.gemini.blocked(), None),
        (answers.anthropic.overloaded(), None),
        (answers.anthropic.no_credit(), None),
    ],
    ids=lambda value: "" if value is None or isinstance(value, str) else str(value.status),
)
def test_it_says_what_classify_says(command, answer, url):
    judged = steadycall.classify(status=answer.status, headers=answer.headers, body=json.dumps(answer.json), url=url)
    assert judged is not None
    found = command("--json", *(["--url", url] if url else []), stdin=message(answer)).data
    assert (command.code, command.err) == (0, "")
    hint = judged.hint and {"seconds": judged.hint.seconds, "source": judged.hint.source}
    assert found["hint"] == hint
    for name in ("kind", "retryable", "status", "provider_code", "sent", "reason", "dialect"):
        assert found[name] == getattr(judged, name), name
    assert found["retries"] == (judged.retryable and (judged.hint is None or judged.hint.seconds <= 60))


def test_words_name_kind_hint_source_and_what_the_policy_does(command):
    printed = command("--url", OPENAI, stdin=message(answers.openai.rate_limited(12))).out
    assert "429, the provider's code rate_limit_exceeded (openai)" in printed
    assert "rate_limited: too fast" in printed
    assert "12 s, asked for in Retry-After" in printed
    assert "waits 12 s and tries again" in printed
    assert "5 attempts and 48 s of waits, then all 5 tries are used up" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("options", "wait", "stop", "attempts"),
    [
        ([], [0.0, 1.0], "tries", [5, 5]),
        (["--base", 4, "--tries", 2], [0.0, 4.0], "tries", [2, 2]),
        (["--backoff", "fixed:3"], [3.0, 3.0], "tries", [5, 5]),
        (["--deadline", 5], [0.0, 1.0], "deadline", [3, 5]),
        (["--tries", 1], None, "tries", [1, 1]),
        (["--retry-status", "429"], None, "not_retryable", [1, 1]),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_the_policy_is_that_of_the_options(command, options, wait, stop, attempts):
    found = command("--status", 503, "--json", *options).data
    assert found["wait"] == (None if wait is None else dict(zip(("least", "most"), wait, strict=True)))
    assert found["if_it_comes_each_time"]["stop_reason"] == stop
    assert list(found["if_it_comes_each_time"]["attempts"].values()) == attempts


@pytest.mark.parametrize(("most", "retries"), [(60, False), (90, True)])
def test_a_hint_longer_than_max_wait_ends_the_call(command, most, retries):
    found = command("--json", "--status", 429, "-H", "Retry-After: 90", "--max-wait", most).data
    assert found["retries"] is retries
    assert found["if_it_comes_each_time"]["stop_reason"] == ("tries" if retries else "hint_too_long")


def test_a_wait_without_end_is_no_number_in_json(command):
    found = command("--json", "--status", 429, "-H", f"Retry-After: {'9' * 400}").data
    assert found["hint"] == {"seconds": None, "source": "Retry-After"}


def test_a_good_answer_is_said_to_be_one(command):
    answer = message(answers.openai.ok())
    assert command(stdin=answer).out == "200: a good answer. There is nothing to retry.\n"
    assert command("--json", stdin=answer).data == {"status": 200, "good": True, "retries": False}


def test_a_file_is_read_as_stdin_is(command, tmp_path):
    (tmp_path / "answer").write_bytes(message(answers.gemini.overloaded(), line="HTTP/2 {}"))
    assert command(tmp_path / "answer", "--json").data["kind"] == "call"


def test_a_url_is_never_printed(command):
    url = "https://generativelanguage.googleapis.com/v1beta/models/x:generateContent?key=SECRET"
    for more in ([], ["--json"]):
        assert "SECRET" not in command("--status", 503, "--url", url, *more).out + command.err


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("119", "119 s, asked"),
        ("7500", "7500 s (2 h 5 min), asked"),
        ("9" * 400, "longer than a number can hold, asked"),
    ],
)
def test_a_wait_far_away_is_told_in_larger_units_too(command, asked, told):
    command("--status", 429, "-H", f"Retry-After: {asked}")
    assert told in command.out


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        ([], b"hello", 4, "there is no status line such as 'HTTP/1.1 429 Too Many Requests'"),
        ([], b"", 4, "A bare body needs --status."),
        ([], b"HTTP/1.1 503 x\r\nnone\r\n\r\n", 4, "line 2 is no header"),
        ([], b"HTTP/1.1 999 x\r\n\r\n", 4, "the status line has 999, which is no status: they go from 100 to 599"),
        (["--status", 503], b"HTTP/1.1 503 x\r\n\r\n", 2, "leave --status out"),
        (["-H", "A: b"], b"", 2, "needs --status"),
        (["--status", 503, "-H", "none"], b"", 2, "a header is written 'Name: value'"),
        (["--status", 99], b"", 2, "--status must be an HTTP status from 100 to 599, got 99"),
        (["--status", 503, "--base", 1e308, "--cap", 1e308], b"", 2, "more seconds than a clock can show"),
        (["--status", 503, "--tries", 0], b"", 2, "--tries must be a whole number of at least 1, got 0"),
        (["--status", 503, "--max-wait", -1], b"", 2, "--max-wait must be"),
        (["--status", 503, "--backoff", "soon"], b"", 2, "--backoff must be"),
        (["--status", 503, "--backoff", "fixed:x"], b"", 2, "must be like fixed:2"),
        (["--status", 503, "--retry-status", "x"], b"", 2, "like 429,503"),
        (["--status", 503, "--retry-status", "99"], b"", 2, "--retry-status must be"),
        (["--status", 503, "--tries", 201], b"", 2, "more than 200 requests"),
        (["no such file"], b"", 2, "No such file"),
        (["--nonsense"], b"", 2, "No such option"),
    ],
    ids=lambda value: None if not isinstance(value, list) else " ".join(map(str, value)),
)
def test_what_is_wrong_is_said_in_one_line(command, arguments, stdin, code, said):
    command(*arguments, stdin=stdin)
    assert (command.code, command.out) == (code, "")
    assert said in command.err
    assert command.err.count("\n") == 1
