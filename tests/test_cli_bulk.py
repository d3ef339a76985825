"""``steadycall bulk``: what it shows and says, its exit codes, and that a key is never seen."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadycall import BulkPlan, BulkProgress, BulkSummary
from steadycall.cli import bulk, main
from steadycall.cli.keys import headers_of
from steadycall.cli.meter import WINDOW, Meter
from steadycall.cli.paint import duration, money
from steadycall.cli.receipt import BAD_LINES, Prices, planned, summed
from steadycall.cli.screen import Log
from steadycall.testing import FakeServer, answers

CHAT = "/v1/chat/completions"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def write_rows(path, count, first=1):
    with open(path, "w") as file:
        for number in range(first, first + count):
            body = {"model": "some-model", "messages": [{"role": "user", "content": f"Say {number}."}]}
            file.write(json.dumps({"custom_id": f"row {number}", "method": "POST", "url": CHAT, "body": body}) + "\n")


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def server():
    with FakeServer() as running:
        yield running


class Command:
    """The command run in this process, on files of its own."""

    def __init__(self, folder, server, capsys):
        self.rows, self.output, self.failures = (folder / name for name in ("in.jsonl", "out.jsonl", "failed.jsonl"))
        self._url, self._capsys = server.url_for("/v1"), capsys

    def __call__(self, *options, to=None):
        where = ["--base-url", self._url] if to is None else to
        files = [self.rows, "-o", self.output, "--failures", self.failures]
        self.code = main(["bulk", *map(str, [*files, *where, *options])])
        self.out, self.err = self._capsys.readouterr()
        return self

    @property
    def data(self):
        return json.loads(self.out)


@pytest.fixture
def command(tmp_path, server, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return Command(tmp_path, server, capsys)


# A run to its end


def test_when_all_are_answered_it_is_exit_code_0_and_the_summary_says_so(command, server):
    server.answer(CHAT, answers.openai.ok("Hi."))
    write_rows(command.rows, 10)
    found = command("--json", "--price-in", 2.5, "--price-out", 10)
    assert found.code == 0
    assert (found.data["answered"], found.data["failed"], found.data["left"]) == (10, 0, 0)
    assert found.data["outcomes"] == {"answered": 10}
    assert found.data["requests"] == len(server.requests) == 10
    assert (found.data["input_tokens"], found.data["output_tokens"]) == (80, 40)
    assert found.data["cost"] == pytest.approx((80 * 2.5 + 40 * 10) / 1e6)
    assert {line["custom_id"] for line in written(command.output)} == {f"row {n}" for n in range(1, 11)}


def test_when_some_fail_it_is_exit_code_1_until_they_are_retried(command, server):
    server.answer(CHAT, answers.openai.ok(), answers.openai.bad_request(), answers.openai.ok())
    write_rows(command.rows, 6)
    first = command("--concurrency", 1)
    assert first.code == 1
    assert "answered      5 of 6 rows" in first.out
    assert re.search(r"failed        1\n +1 \w+", first.out)
    assert "--retry-failed sends them again" in first.out
    assert command().code == 1  # they are left alone
    assert len(server.requests) == 6
    again = command("--retry-failed")
    assert again.code == 0
    assert "answered      6 of 6 rows (5 by earlier runs)" in again.out
    assert len(server.requests) == 7


def test_payloads_go_to_the_url(command, server):
    server.answer("/x", answers.openai.ok())
    command.rows.write_text('{"model": "m"}\n{"model": "n"}\n')
    assert command(to=["--url", server.url_for("/x")]).code == 0
    assert {request.json()["model"] for request in server.requests} == {"m", "n"}


def test_bad_lines_are_failures_and_the_run_goes_on(command, server):
    server.answer(CHAT, answers.openai.ok())
    write_rows(command.rows, 2)
    with open(command.rows, "a") as file:
        file.write("no json\n")
    found = command()
    assert found.code == 1
    assert "1 not_json" in found.out
    assert [line["line"] for line in written(command.failures)] == [3]


def test_a_file_of_bad_lines_only_is_exit_code_4(command, server):
    command.rows.write_text("no json\n{}\n")
    found = command()
    assert found.code == 4
    assert "in.jsonl is a row in the Batch format; " in found.err
    assert "--url" not in found.err
    assert "--retry-failed" not in found.out
    assert "mend 2 bad lines in a file of their own" in found.out
    assert re.search(r"failed        2\n +1 missing_custom_id\n +1 not_json\n", found.out)
    assert server.requests == []


def test_a_number_for_an_id_is_no_reason_to_speak_of_payloads(command):
    command.rows.write_text(json.dumps({"custom_id": 1, "method": "POST", "url": CHAT, "body": {"model": "m"}}) + "\n")
    found = command()
    assert found.code == 4
    assert "--url" not in found.err


def test_payloads_without_a_url_are_sent_once_what_the_summary_says_is_done(command, server):
    server.answer("/x", answers.openai.ok())
    command.rows.write_text('{"model": "m"}\n')
    found = command()
    assert found.code == 4
    journal = command.output.with_name(f"{command.output.name}.journal")
    assert f"Payloads go with --url: give it, and remove {command.failures} and {journal}" in found.err
    command.failures.unlink()
    journal.unlink()
    assert command(to=["--url", server.url_for("/x")]).code == 0


def test_when_all_that_is_left_failed_before_the_summary_says_what_to_add(command, server):
    server.answer(CHAT, answers.openai.bad_request(), answers.openai.ok())
    write_rows(command.rows, 1)
    assert command().code == 1
    found = command()
    assert found.code == 1
    assert "nothing was sent, for all that is left failed in earlier runs: add --retry-failed" in found.out
    assert command("--retry-failed").code == 0


def test_one_row_that_is_left_is_one():
    assert bulk.going_on(1, "it again") == "1 row is left; to go on: it again"
    assert bulk.going_on(1200, "it again") == "1,200 rows are left; to go on: it again"


def test_retries_count_as_requests(command, server):
    server.answer(CHAT, answers.openai.rate_limited(0.01), answers.openai.ok())
    write_rows(command.rows, 1)
    found = command()
    assert found.code == 0
    assert "requests      2, 1 answered with 429" in found.out


# What it says besides


def test_without_a_terminal_it_writes_plain_lines_to_stderr(command, server):
    server.answer(CHAT, answers.openai.ok().replace(delay=0.02))
    write_rows(command.rows, 40)
    found = command("--concurrency", 1, "--every", 0.1)
    lines = found.err.splitlines()
    assert len(lines) >= 3
    assert all(re.match(r"\d\d:\d\d:\d\d \d+ of 40 rows, ", line) for line in lines)
    assert re.search(r"\d in flight, \d+ waiting, [\d.]+ requests/s, [\d,]+ tokens/min, ETA ", lines[1])
    assert re.search(r"40 of 40 rows, .* in \d", lines[-1])
    assert "\x1b" not in found.out + found.err


def test_a_key_of_the_environment_is_sent_and_never_seen(command, server, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_KEY", "sk-secret\n")
    server.answer(CHAT, answers.openai.ok(), answers.openai.bad_key())
    write_rows(command.rows, 2)
    found = command("--key-env", "SOME_KEY", "--concurrency", 1)
    assert found.code == 1
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-secret"}
    told = [found.out, found.err, *(path.read_text() for path in tmp_path.iterdir())]
    assert [text for text in told if "sk-secret" in text] == []


def test_a_base_url_may_come_from_the_environment(command, server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url_for("/v1"))
    server.answer(CHAT, answers.openai.ok())
    write_rows(command.rows, 1)
    assert command(to=[]).code == 0


# Before a run


def test_a_dry_run_prints_the_plan_and_sends_and_writes_nothing(command, server, tmp_path):
    write_rows(command.rows, 30)
    found = command("--dry-run", "--rpm", 10, "--attempt-timeout", 5, "--price-in", 1)
    assert (found.code, found.err) == (0, "")
    assert "rows          30 to send of 30 in" in found.out
    assert "requests      30, at the worst 180" in found.out
    assert re.search(r"time          at least 2 min 54 s at the limits given; at the worst \d", found.out)
    assert re.search(r"tokens        about \d+ with the output asked for, the largest row about \d+", found.out)
    assert re.search(
        r"cost          about 0\.0000\d\d with one request a row\n +without the output of rows that", found.out
    )
    assert server.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    data = command("--dry-run", "--json").data
    assert (data["to_send"], data["worst_requests"], data["batch_service"]) == (30, 180, None)


PLAN = {"rows": 9, "bad_lines": 0, "earlier": 0, "to_send": 9, "tokens": 900, "largest": 100}
PLAN |= {"least_seconds": 0.0, "worst_seconds": None, "worst_requests": 54}


@pytest.mark.parametrize(
    ("target", "change", "said"),
    [
        ("https://api.openai.com/v1", {}, "the batch service of OpenAI would do as well, at half the price"),
        ("https://api.anthropic.com/v1", {}, "the batch service of Anthropic would do as well"),
        ("https://us-central1-aiplatform.googleapis.com", {}, "the batch service of Vertex AI would do as well"),
        ("https://api.openai.com/v1", {"worst_seconds": 20.0}, "takes longer than this run"),
        ("https://api.openai.com/v1", {"to_send": 0}, "nothing is left to send"),
        ("https://api.openai.com.evil.example/v1", {}, "no batch service is known there"),
        ("http://localhost:8000", {}, "no batch service is known there"),
    ],
)
def test_a_plan_says_whether_a_batch_service_would_do(target, change, said):
    assert said in planned(BulkPlan(**PLAN | change), "in.jsonl", Prices(None, None), target)


# What is wrong


@pytest.mark.parametrize(
    ("options", "to", "said"),
    [
        ([], [], "--base-url says where rows in the Batch format go, or --url"),
        (["--url", "http://x/y"], None, "--url or --base-url must be"),
        (["-H", "Authorization: Bearer sk-secret"], None, "a key must not stand on the command line; use --key-env"),
        (["-H", "X-API-Key: sk-secret"], None, "use --key-env"),
        (["-H", "nothing"], None, "a header is written 'Name: value'"),
        (["-H", "X-Auth-Token: sk-secret"], None, "use --key-env"),
        ([], ["--url", "http://x/y?key=sk-secret"], "the URL holds a key"),
        ([], ["--url", "http://me:sk-secret@x/y"], "the URL holds a key"),
        ([], ["--url", "http://[x/y"], "--url or --base-url"),
        (["--key-env", "NO_SUCH"], None, "the environment has no NO_SUCH, or it is empty"),
        (["--key-env", "sk-secret"], None, "the environment has no variable of that name, or it is empty"),
        (["--key-env", "gsk_secret"], None, "the environment has no variable of that name"),
        (["--failures", "-"], None, "'--failures': a run is resumed by its files, so it takes no pipe"),
        (["--key-header", "x-api-key"], None, "--key-header goes with --key-env"),
        (["--rpm", 0], None, "--rpm"),
        (["--rpm", 10**20], None, "--rpm must be a whole number of at most"),
        (["--tpm", 10**20], None, "--tpm must be a whole number of at most"),
        (["--failures", "out.jsonl.journal"], None, "bulk: journal must be another file than failures"),
        (["--timeout", "nan"], None, "--timeout"),
        (["--price-in", "inf"], None, "--price-in"),
        (["--tries", 0], None, "--tries must be a whole number of at least 1, got 0"),
        ([], ["--base-url", "ftp://x"], "--base-url must be"),
        (["--failures", "in.jsonl"], None, "--failures must be another file than rows"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_a_wrong_use_is_exit_code_2_and_one_line(command, monkeypatch, tmp_path, options, to, said):
    monkeypatch.chdir(tmp_path)
    write_rows(command.rows, 1)
    found = command(*options, to=to)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert said in found.err
    assert "sk-secret" not in found.err
    assert not command.output.exists()


def test_a_file_that_is_not_there_is_exit_code_4(command):
    for options in ([], ["--dry-run"]):
        found = command(*options)
        assert (found.code, found.out, found.err.count("\n")) == (4, "", 1)
        assert "in.jsonl" in found.err
        assert re.search("No such file|not found", found.err)


def test_an_output_that_belongs_to_other_rows_is_exit_code_4_before_anything_is_sent(command, server):
    server.answer(CHAT, answers.openai.ok())
    write_rows(command.rows, 2)
    assert command().code == 0
    write_rows(command.rows, 2, first=5)
    found = command()
    assert (found.code, found.out, found.err.count("\n")) == (4, "", 1)
    assert len(server.requests) == 2


def test_an_output_that_cannot_be_written_is_exit_code_4_before_anything_is_sent(command, server, tmp_path):
    write_rows(command.rows, 2)
    command.output = tmp_path / "no such folder" / "out.jsonl"
    found = command()
    assert (found.code, found.out, found.err.count("\n")) == (4, "", 1)
    assert server.requests == []


# Keys


@pytest.mark.parametrize(
    ("target", "header", "sent"),
    [
        ("https://api.openai.com/v1", None, {"Authorization": "Bearer sk-x"}),
        ("https://llm.example", None, {"Authorization": "Bearer sk-x"}),
        ("https://api.anthropic.com", None, {"x-api-key": "sk-x"}),
        ("https://generativelanguage.googleapis.com", None, {"x-goog-api-key": "sk-x"}),
        ("https://mine.openai.azure.com/openai", None, {"api-key": "sk-x"}),
        ("https://llm.example", "X-Key", {"X-Key": "sk-x"}),
        ("https://api.anthropic.com", "authorization", {"authorization": "Bearer sk-x"}),
    ],
)
def test_a_key_goes_where_the_provider_looks_for_it(monkeypatch, target, header, sent):
    monkeypatch.setenv("SOME_KEY", " sk-x\r\n")
    given = ("X-Other: 1", "Idempotency-Key: a")
    assert headers_of(given, "SOME_KEY", header, target) == {"X-Other": "1", "Idempotency-Key": "a", **sent}


@pytest.mark.parametrize("key", ["", " ", "a\nb", "schlüssel"])
def test_what_no_header_can_hold_is_no_key_and_not_printed(monkeypatch, key):
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(click.UsageError) as caught:
        headers_of((), "SOME_KEY", None, "https://llm.example")
    assert not key.strip() or key not in caught.value.message


@pytest.mark.parametrize(
    "given", [["-H", "X-Foo: hush"], ["-HX-Foo: hush"], ["--header", "X-Foo: hush"], ["--header=X-Foo: hush"]], ids=str
)
def test_the_command_to_go_on_with_leaves_headers_out_and_is_refused_as_it_stands(command, given):
    told = bulk.again(["bulk", *given, "in file", "--rpm", "1"])
    assert told in ("steadycall bulk -H ... 'in file' --rpm 1", "steadycall bulk --header ... 'in file' --rpm 1")
    assert command("-H", "...").code == 2


@pytest.mark.parametrize(("files", "named"), [(["-", "-o", "out"], "'IN'"), (["in.jsonl", "-o", "-"], "'--output'")])
def test_a_pipe_in_place_of_a_file_is_refused_by_name(capsys, files, named):
    assert main(["bulk", *files, "--base-url", "http://x"]) == 2
    told = capsys.readouterr().err
    assert re.search(rf"{named}.*: a run is resumed by its files, so it takes no pipe", told)
    assert told.count("\n") == 1


# Figures


PROGRESS = BulkProgress(
    last_error=None,
    rows=1000,
    answered=0,
    failed=0,
    earlier=0,
    in_flight=4,
    waiting=9,
    requests=0,
    input_tokens=0,
    output_tokens=0,
    rate_limited=0,
    waits_until=None,
    elapsed=0.0,
)


def at(elapsed, **changes):
    return BulkProgress(**{**vars(PROGRESS), "elapsed": elapsed, **changes})


def test_a_pace_is_that_of_the_last_minute():
    meter = Meter()
    for second in range(1, 121):
        answered = 5 * min(second, 60) + max(second - 60, 0)  # five a second for a minute, then one
        found = meter.read(at(second, answered=answered, requests=2 * answered, input_tokens=10 * answered), NOON)
    assert found.requests_per_second == pytest.approx(2.0)
    assert found.tokens_per_minute == pytest.approx(600.0)
    assert found.left_seconds == pytest.approx(1000 - 360)
    assert found.ends_at == NOON + timedelta(seconds=640)


def test_the_first_look_has_a_pace_since_the_start():
    assert Meter().read(at(2.0, answered=10, requests=10, earlier=500), NOON).requests_per_second == 5.0


def test_a_wait_ahead_is_part_of_the_time_left():
    until = NOON + timedelta(seconds=200)
    found = Meter().read(at(10.0, answered=10, waits_until=until), NOON)
    assert found.left_seconds == pytest.approx(200 + 990)
    assert found.waits_until == until
    assert Meter().read(at(10.0, answered=10, waits_until=until), until).waits_until is None


def test_a_pause_that_a_provider_asked_for_does_not_change_the_pace_of_what_comes_after_it():
    meter, until = Meter(), NOON + timedelta(seconds=310)
    for second in range(1, 11):
        meter.read(at(second, answered=second), NOON + timedelta(seconds=second))
    for second in range(11, 310):
        now = NOON + timedelta(seconds=second)
        found = meter.read(at(second, answered=10, waits_until=until), now)
        assert found.left_seconds == pytest.approx((until - now).total_seconds() + 990, rel=1e-6)
        assert found.ends_at == until + timedelta(seconds=990)
    found = meter.read(at(310.5, answered=10), NOON + timedelta(seconds=310.5))
    assert found.left_seconds == pytest.approx(990)


@given(
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 50), st.integers(0, 50)), max_size=60),
    st.one_of(st.none(), st.integers(-10, 10**9)),
)
def test_no_run_has_a_pace_below_0_or_an_end_before_now(steps, wait):
    meter, now, done, elapsed = Meter(), NOON, 0, 0.0
    until = None if wait is None else NOON + timedelta(seconds=wait)
    for passed, answered, failed in steps:
        elapsed, done = elapsed + passed, done + answered + failed
        found = meter.read(at(elapsed, answered=done, requests=done, waits_until=until), now)
        assert found.requests_per_second >= 0
        assert found.left_seconds is None or found.left_seconds >= 0
        assert found.ends_at is None or found.ends_at >= now
        assert meter._seen[-1][0].elapsed - meter._seen[0][0].elapsed <= WINDOW + 200


def test_a_log_has_a_line_at_the_start_one_every_few_seconds_and_one_at_the_end(capsys):
    log, meter = Log(5.0), Meter()
    for half in range(1, 25):
        log.show(meter.read(at(half / 2, answered=half), NOON))
    log.show(meter.read(at(12.0, answered=1000), NOON), last=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith("in 12 s")


def test_a_wait_is_told_by_the_local_time_of_its_end(capsys):
    until = NOON + timedelta(minutes=3, seconds=20)
    Log(5.0).show(Meter().read(at(60.0, answered=60, failed=2, rate_limited=3, waits_until=until), NOON))
    printed = capsys.readouterr().err
    assert f"waits until {until.astimezone():%H:%M:%S}" in printed
    assert "2 failed" in printed
    assert "3 x 429" in printed
    tomorrow = NOON + timedelta(days=1)
    Log(5.0).show(Meter().read(at(60.0, answered=60, waits_until=tomorrow), NOON))
    assert f"waits until {tomorrow.astimezone():%Y-%m-%d %H:%M:%S}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (45, "45 s"),
        (59.9, "60 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (3600, "1 h"),
        (90000, "1 d 1 h"),
        (86400 * 1500, "1,500 d"),
    ],
)
def test_a_time_is_told_in_its_two_largest_units(seconds, told):
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0.0, "0.00"),
        (0.0012345, "0.0012"),
        (0.99, "0.99"),
        (0.5, "0.50"),
        (1, "1.00"),
        (1234.5, "1,234.50"),
        (3e-9, "0.0000000030"),
    ],
)
def test_an_amount_that_is_not_nothing_is_not_told_as_nothing(amount, told):
    assert money(amount) == told


def test_a_cost_that_no_number_holds_is_null_in_json(command):
    write_rows(command.rows, 30)
    assert command("--dry-run", "--json", "--price-in", 1.7e308).data["cost"] is None


SUMMARY = {
    "rows": 10,
    "answered": 10,
    "failed": 0,
    "earlier_answered": 0,
    "earlier_failed": 0,
    "left": 0,
    "maybe_billed_twice": 0,
}
SUMMARY |= {
    "outcomes": {"answered": 10},
    "requests": 12,
    "rate_limited": 0,
    "input_tokens": 1,
    "output_tokens": 2,
    "elapsed": 3.0,
}
SUMMARY |= {"stopped": None, "waits_until": None, "last_error": None, "output": "out.jsonl", "failures": "failed.jsonl"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"rows": 0, "answered": 0}, 0),
        ({"answered": 9, "failed": 1}, 1),
        ({"earlier_failed": 1}, 1),
        ({"stopped": "stop", "left": 3}, 3),
        ({"stopped": "stop"}, 0),  # nothing was left to do
        ({"stopped": "stop", "left": 3, "failed": 1}, 3),
        ({"stopped": "abort", "left": 3}, 130),
        ({"answered": 0, "failed": 10, "outcomes": {"not_json": 4, "missing_custom_id": 6}}, 4),
        ({"answered": 0, "failed": 10, "outcomes": {"not_json": 4, "server_error": 6}}, 1),
    ],
)
def test_the_exit_code_says_what_became_of_it(changes, code):
    assert bulk.exit_code(BulkSummary(**SUMMARY | changes)) == code


def test_a_summary_names_what_may_have_been_billed_twice():
    printed = summed(BulkSummary(**SUMMARY | {"maybe_billed_twice": 2}), Prices(None, None))
    assert "billed twice? 2 rows had been sent by an earlier run" in printed
    assert "cost" not in printed


def test_every_code_of_a_bad_line_is_in_the_docs():
    from pathlib import Path

    told = (Path(__file__).parent.parent / "docs" / "bulk.md").read_text()
    assert [code for code in BAD_LINES if f"`{code}`" not in told] == []
