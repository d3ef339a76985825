"""``bulk`` from file to file: what is written, what is left alone, what is refused, and when the next row goes."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall import Backoff, ConfigError, Policy, RateLimit
from steadycall.testing import Answer, FakeServer, answers
from steadycall.testing.message import Request

PATH = "/v1/chat/completions"
OK = answers.openai.ok("Hi.")
QUICK = Policy(tries=4, base=0.002, cap=0.01)


def row(number: int, **changes: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": f"Say {number}."}]}
    return {"custom_id": f"row {number}", "method": "POST", "url": PATH, "body": body, **changes}


def written(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


class Job:
    """A folder with rows, and the run from there."""

    def __init__(self, folder: Path, server: FakeServer) -> None:
        self.rows, self.output = folder / "rows.jsonl", folder / "answers.jsonl"
        self.failures, self.journal = folder / "answers.failures.jsonl", folder / "answers.jsonl.journal"
        self.server = server

    def of(self, *lines: Any) -> Job:
        written(self.rows, lines)
        return self

    def new(self, **settings: Any) -> steadycall.BulkRun:
        given = {"base_url": f"{self.server.url}/v1", "policy": QUICK, "output": self.output, **settings}
        given.setdefault("failures", self.failures)
        return steadycall.BulkRun(self.rows, **given)

    def run(self, **settings: Any) -> steadycall.BulkSummary:
        with self.new(**settings) as run:
            summary = run.wait(30)
        assert summary is not None
        return summary

    @property
    def answered(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.failures.read_text().splitlines()]

    @property
    def asked(self) -> Counter[int]:
        return Counter(number(request) for request in self.server.requests)


def number(request: Request) -> int:
    found = re.search(rb"Say (\d+)\.", request.body)
    assert found is not None
    return int(found[1])


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with FakeServer() as server:
        server.answer(PATH, OK)
        yield Job(tmp_path, server)


def by_number(answer: Any) -> Any:
    """A step that looks at the row."""
    return lambda request: answer(number(request))


# What is written


def test_an_answer_is_a_line_in_the_result_format_with_the_body_as_it_came(job: Job) -> None:
    body = '{\n "n": 1.50,\n "big": 123456789012345678901}\n'
    headers = {"content-type": "application/json", "x-request-id": "req-7"}
    job.server.answer(PATH, Answer(200, body=body, headers=headers))
    summary = job.of(row(1)).run()
    assert (summary.answered, summary.failed, summary.complete, summary.stopped) == (1, 0, True, None)
    assert job.output.read_text().endswith('"body":{  "n": 1.50,  "big": 123456789012345678901}},"error":null}\n')
    (record,) = job.answered
    assert record["id"].endswith("-1")
    assert (record["custom_id"], record["error"]) == ("row 1", None)
    assert record["response"]["status_code"] == 200
    assert record["response"]["request_id"] == "req-7"
    assert job.failures.read_text() == ""


def test_the_body_is_sent_as_it_stands_in_the_line(job: Job) -> None:
    job.of('{"custom_id": "a", "url": "/v1/chat/completions", "body": {"n": 1.50,  "e": "\\u00e9"}}').run()
    (request,) = job.server.requests
    assert request.body == b'{"n": 1.50,  "e": "\\u00e9"}'
    assert request.headers["content-type"] == "application/json"


def test_plain_lines_are_payloads_and_go_to_one_url(job: Job) -> None:
    job.of('{"x": 1}', "", "[2]", "nonsense").run(base_url=None, url=job.server.url_for(PATH))
    assert sorted(request.body for request in job.server.requests) == [b"[2]", b'{"x": 1}']
    assert {record["custom_id"] for record in job.answered} == {"row-1", "row-3"}
    assert [(record["custom_id"], record["line"]) for record in job.failed] == [("row-4", 4)]


def test_bad_lines_are_recorded_with_their_numbers_and_the_run_goes_on(job: Job) -> None:
    lines = [
        row(1),
        "nonsense",
        "[1]",
        row(2, custom_id=None),
        row(3, custom_id="row 1"),
        row(4, method="GET"),
        row(5, url="https://elsewhere.example/v1/x"),
        row(6, body=None),
        row(7, body={"stream": True}),
        row(8),
        row(9, body="text"),
        row(10, url="/v1/../../admin"),
        row(11, url="/v1/x\r\ny"),
    ]
    summary = job.of(*lines).run()
    assert (summary.answered, summary.failed) == (2, 11)
    assert [(record["line"], record["error"]["code"]) for record in job.failed] == [
        (2, "not_json"),
        (3, "not_an_object"),
        (4, "missing_custom_id"),
        (5, "duplicate_custom_id"),
        (6, "bad_method"),
        (7, "bad_url"),
        (8, "missing_body"),
        (9, "stream"),
        (11, "body_not_an_object"),
        (12, "bad_url"),
        (13, "bad_url"),
    ]
    assert summary.outcomes["bad_url"] == 3
    assert summary.outcomes["answered"] == 2


def test_a_row_that_fails_is_recorded_with_its_answer_and_reason(job: Job) -> None:
    job.server.script(PATH, [answers.openai.bad_request("No such thing.")])
    summary = job.of("", row(1)).run()
    (record,) = job.failed
    assert (record["line"], record["custom_id"]) == (2, "row 1")
    assert record["response"]["status_code"] == 400
    assert record["response"]["body"]["error"]["message"] == "No such thing."
    assert (record["error"]["code"], record["error"]["stop_reason"]) == ("bad_request", "not_retryable")
    assert (record["error"]["requests"], record["error"]["sent"]) == (1, "no")
    assert summary.outcomes == {"bad_request": 1}


def test_what_is_no_json_is_kept_as_text_in_the_failure(job: Job) -> None:
    job.server.answer(PATH, Answer(502, body="<html>\nBad gateway"))
    job.of(row(1)).run()
    (record,) = job.failed
    assert record["response"]["body"] == "<html>\nBad gateway"
    assert record["error"]["requests"] == 4


def test_a_connection_that_breaks_is_tried_again(job: Job) -> None:
    job.server.answer(PATH, Answer(reset="before"), OK)
    summary = job.of(row(1)).run()
    assert (summary.answered, summary.requests) == (1, 2)


def test_tokens_are_summed(job: Job) -> None:
    summary = job.of(row(1), row(2)).run()
    assert (summary.input_tokens, summary.output_tokens) == (16, 8)


# What is left alone


def test_rows_with_a_record_are_not_sent_again(job: Job) -> None:
    job.server.script(PATH, [by_number(lambda n: answers.openai.bad_request() if n == 2 else OK)])
    job.of(row(1), row(2), row(3)).run()
    again = job.run()
    assert (again.answered, again.failed, again.earlier_answered, again.earlier_failed) == (0, 0, 2, 1)
    assert job.asked == {1: 1, 2: 1, 3: 1}


def test_failed_rows_are_sent_again_only_when_asked_to(job: Job) -> None:
    bad = {2, 4}
    job.server.script(PATH, [by_number(lambda n: answers.openai.bad_request() if n in bad else OK)])
    job.of(*map(row, range(5)), "nonsense").run()
    bad.remove(4)
    again = job.run(retry_failed=True)
    assert (again.answered, again.failed, again.earlier_answered, again.maybe_billed_twice) == (1, 2, 3, 0)
    assert sorted(record["custom_id"] for record in job.answered) == ["row 0", "row 1", "row 3", "row 4"]
    assert [record["line"] for record in job.failed] in ([3, 6], [6, 3])
    assert job.asked == {0: 1, 1: 1, 2: 2, 3: 1, 4: 2}


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_torn_last_line_is_repaired_and_its_row_sent_again(job: Job, cut: int) -> None:
    job.of(row(1), row(2), row(3)).run(concurrency=1)
    whole = job.output.read_bytes()
    job.output.write_bytes(whole[:-cut])
    again = job.run()
    assert (again.answered, again.earlier_answered, again.maybe_billed_twice) == (1, 2, 1)
    assert {record["custom_id"] for record in job.answered} == {"row 1", "row 2", "row 3"}
    assert len(job.answered) == 3


def test_what_a_power_cut_left_at_the_end_of_the_files_is_cut_off(job: Job) -> None:
    job.of(row(1), row(2)).run(concurrency=1)
    for path in (job.output, job.journal):
        path.write_bytes(path.read_bytes() + b"\0" * 300)
    assert job.run().earlier_answered == 2
    assert b"\0" not in job.output.read_bytes() + job.journal.read_bytes()


def test_a_torn_journal_counts_fewer_rows_as_doubtful_and_nothing_else(job: Job) -> None:
    job.of(row(1), row(2)).run(concurrency=1)
    job.journal.write_bytes(job.journal.read_bytes()[:-1])
    job.output.write_bytes(b"")
    again = job.run()
    assert (again.answered, again.maybe_billed_twice) == (2, 1)


# What is refused, before the first request


def refused(job: Job, error: type[Exception], said: str, **settings: Any) -> None:
    before = len(job.server.requests)
    with pytest.raises(error, match=said):
        job.run(**settings)
    assert len(job.server.requests) == before


def test_an_output_of_other_rows_is_refused(job: Job) -> None:
    job.of(row(1)).run()
    refused(job.of(row(2)), ConfigError, "output must be the output of these rows")


def test_an_output_without_its_journal_is_refused(job: Job) -> None:
    job.of(row(1)).run()
    job.journal.unlink()
    refused(job, ConfigError, "output must be a file that does not exist yet")


@pytest.mark.parametrize("foreign", ['{"custom_id": "x"}\n', '{"id":"bulk-0123456789ab-1","custom_id":"x"}\n'])
def test_an_output_with_somebody_elses_lines_is_refused(job: Job, foreign: str) -> None:
    job.of(row(1), row(2)).run()
    job.output.write_text(foreign)
    refused(job, ConfigError, "records of this run only")


def test_a_journal_of_somebody_else_is_refused(job: Job) -> None:
    job.journal.write_text("My diary.\n")
    refused(job.of(row(1)), ConfigError, "journal")


def test_files_that_cannot_be_used_are_named(job: Job, tmp_path: Path) -> None:
    refused(job, FileNotFoundError, "rows.jsonl")
    job.of(row(1))
    with pytest.raises(OSError, match="nowhere"):
        steadycall.bulk(job.rows, output=tmp_path / "nowhere" / "x.jsonl", base_url=job.server.url)
    with pytest.raises(ConfigError, match="regular file"):
        steadycall.bulk(tmp_path, output=job.output, base_url=job.server.url)
    with pytest.raises(ConfigError, match="another file than rows"):
        steadycall.bulk(job.rows, output=job.rows, base_url=job.server.url)
    assert not job.server.requests


def test_two_runs_do_not_write_to_one_output(job: Job) -> None:
    job.server.answer(PATH, Answer(never=True))
    with job.of(row(1)).new() as first:
        job.server.wait_for(lambda server: len(server.requests) == 1)
        refused(job, ConfigError, "no other run writes to")
        refused(job, ConfigError, "failures must be one that no other run", output=job.output.with_name("other.jsonl"))
        first.abort()
    assert not job.output.with_name("other.jsonl.journal").exists()


def test_a_run_that_goes_on_elsewhere_is_refused(job: Job) -> None:
    job.of(row(1)).run()
    refused(
        job, ConfigError, "url must be the url or base_url that the rows before went to", base_url="http://x.example/v1"
    )
    assert job.run(base_url=f"{job.server.url}/v1/").earlier_answered == 1


def test_a_run_that_is_refused_leaves_no_journal_behind(job: Job) -> None:
    refused(job, FileNotFoundError, "rows.jsonl")
    job.of(row(1)).output.write_text("My diary.\n")
    refused(job, ConfigError, "output must be a file that does not exist yet")
    assert not job.journal.exists()
    assert not job.failures.exists()


def test_a_run_that_was_not_started_or_was_before_says_so(job: Job) -> None:
    run = job.of(row(1)).new()
    with pytest.raises(RuntimeError, match="the run was not started"):
        run.wait(0)
    with run:
        with pytest.raises(RuntimeError, match="the run was started before"):
            run.start()
        assert run.wait(10) is not None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "base_url"),
        ({"url": "http://x/", "base_url": "http://x/"}, "both"),
        ({"base_url": "ftp://x/"}, "http or https"),
        ({"base_url": "http://x/v1?key=k"}, "query"),
        ({"base_url": "http://x/", "concurrency": 0}, "concurrency"),
        ({"base_url": "http://x/", "policy": "patient"}, "policy"),
        ({"base_url": "http://x/", "policy": Policy(retry_if=lambda failure, error: None)}, "retry_if"),
        ({"base_url": "http://x/", "rate": 3}, "rate"),
        ({"base_url": "http://x/", "timeout": -1}, "timeout"),
        ({"base_url": "http://x/", "retry_failed": "yes"}, "retry_failed"),
        ({"base_url": "http://x/", "ordered": True}, "ordered"),
        ({"base_url": "http://x/", "on_progress": 3}, "on_progress"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(job: Job, settings: dict[str, Any], said: str) -> None:
    job.of(row(1))
    with pytest.raises(ConfigError, match=said):
        steadycall.bulk(job.rows, output=job.output, **settings)
    assert not job.output.exists()


# While it runs


def test_a_stop_finishes_what_is_in_flight_and_leaves_the_rest_to_the_next_run(job: Job) -> None:
    job.server.answer(PATH, OK.replace(delay=0.1))
    with job.of(*map(row, range(50))).new(concurrency=4) as run:
        job.server.wait_for(lambda server: server.in_flight == 4)
        run.stop()
        summary = run.wait(10)
    assert summary is not None
    assert summary.stopped == "stop"
    assert summary.answered == len(job.server.requests) == len(job.answered)
    assert summary.left == 50 - summary.answered > 0
    again = job.run()
    assert (again.left, again.maybe_billed_twice) == (0, 0)
    assert set(job.asked.values()) == {1}


def test_a_row_that_waited_for_a_retry_when_it_was_stopped_is_not_in_doubt(job: Job) -> None:
    job.server.answer(PATH, answers.openai.rate_limited(30), OK)
    with job.of(row(1), row(2)).new(concurrency=1) as run:
        job.server.wait_for(lambda server: len(server.requests) == 1)
        while run.progress().waits_until is None:
            time.sleep(0.005)
        left = (run.progress().waits_until or datetime.now(UTC)) - datetime.now(UTC)
        assert 25 < left.total_seconds() <= 30
        assert (run.progress().waiting, run.progress().rate_limited) == (2, 1)
        run.stop()
        summary = run.wait(10)
    assert summary is not None
    assert (summary.answered, summary.failed, summary.left) == (0, 0, 2)
    assert job.run().maybe_billed_twice == 0


def test_an_abort_ends_at_once_and_what_was_in_flight_is_in_doubt(job: Job) -> None:
    job.server.answer(PATH, Answer(never=True))
    with job.of(row(1), row(2), row(3)).new(concurrency=2) as run:
        job.server.wait_for(lambda server: server.in_flight >= 1)
        time.sleep(0.05)
        sent = len(job.server.requests)
        run.abort()
        summary = run.wait(5)
    assert summary is not None
    assert (summary.stopped, summary.left) == ("abort", 3)
    job.server.answer(PATH, OK)
    assert job.run().maybe_billed_twice == sent


@pytest.mark.parametrize("refusal", [answers.openai.bad_key(), answers.openai.insufficient_quota()])
def test_a_run_whose_account_is_refused_stops_and_leaves_the_other_rows_alone(job: Job, refusal: Answer) -> None:
    job.server.script(PATH, [OK] * 5, then=refusal)
    summary = job.of(*map(row, range(200))).run(concurrency=4)
    assert summary.stopped == "refused"
    assert summary.answered == 5
    assert 20 <= summary.failed <= 60
    assert len(job.server.requests) == summary.answered + summary.failed
    job.server.answer(PATH, OK)
    again = job.run(retry_failed=True)
    assert (again.left, again.earlier_answered, again.answered) == (0, 5, 195)


def test_a_wait_longer_than_max_wait_stops_the_run_at_once_and_leaves_the_rows_to_the_next(job: Job) -> None:
    job.server.answer(PATH, answers.openai.rate_limited(12))
    began = time.monotonic()
    summary = job.of(*map(row, range(9))).run(policy=Policy(max_wait=2), concurrency=2)
    assert time.monotonic() - began < 2
    assert (summary.stopped, summary.failed, summary.left) == ("wait", 0, 9)
    assert summary.waits_until is not None
    assert 5 < (summary.waits_until - datetime.now(UTC)).total_seconds() <= 14
    job.server.answer(PATH, OK)
    again = job.run()
    assert (again.answered, again.maybe_billed_twice, again.waits_until) == (9, 0, None)


def test_a_server_that_stays_away_ends_the_run_and_is_named(job: Job) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    summary = job.of(*map(row, range(60))).run(base_url=gone, give_up_after=0.5, policy=Policy(tries=40, max_wait=60))
    assert (summary.stopped, summary.failed, summary.left) == ("outage", 0, 60)
    assert summary.last_error == "127.0.0.1: connect_failed"
    assert summary.requests == 0
    assert summary.elapsed < 5


def test_a_request_that_was_given_up_under_way_is_counted(job: Job) -> None:
    job.server.answer(PATH, Answer(never=True))
    with job.of(row(1)).new() as run:
        job.server.wait_for(lambda server: server.in_flight == 1)
        run.abort()
        summary = run.wait(5)
    assert summary is not None
    assert (summary.stopped, summary.requests) == ("abort", 1)


def test_a_row_that_waits_for_its_retry_holds_up_nobody(job: Job) -> None:
    failed_once: set[int] = set()

    def answer(number: int) -> Answer:
        if number == 0 and not failed_once:
            failed_once.add(number)
            return answers.openai.overloaded()
        return OK

    job.server.script(PATH, [by_number(answer)])
    policy = Policy(tries=2, backoff=Backoff.fixed(0.4))
    job.of(*map(row, range(9))).run(concurrency=1, policy=policy)
    order = [number(request) for request in job.server.requests]
    assert order[0] == 0
    assert order[-1] == 0
    assert sorted(order[1:-1]) == list(range(1, 9))


def test_never_more_are_in_flight_than_may_be(job: Job) -> None:
    most = 0

    def answer(request: Request) -> Answer:
        nonlocal most
        most = max(most, job.server.in_flight)
        return OK.replace(delay=0.005)

    job.server.script(PATH, [answer])
    assert job.of(*map(row, range(60))).run(concurrency=3).answered == 60
    assert most == 3


def test_limits_that_answers_tell_of_are_kept_and_the_first_row_goes_alone(job: Job) -> None:
    headers = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "599"}
    told = Answer(200, json={"choices": []}, headers=headers)
    job.server.answer(PATH, told.replace(delay=0.02))
    summary = job.of(*map(row, range(66))).run(concurrency=50)
    # One, then sixty at once - a tenth of a minute's - and ten a second.
    assert summary.elapsed > 0.35
    began = [request.received_at for request in job.server.requests]
    assert began[1] - began[0] >= 0.02


def test_a_given_rate_is_kept(job: Job) -> None:
    summary = job.of(*map(row, range(15))).run(rate=RateLimit(1200, burst=5))
    assert 0.4 < summary.elapsed < 5


def test_a_rate_without_a_burst_sends_a_tenth_of_a_minute_at_once(job: Job) -> None:
    with job.of(*map(row, range(60))).new(rate=RateLimit(60)) as run:
        job.server.wait_for(lambda server: len(server.requests) >= 6)
        assert run.wait(0.3) is None
        assert len(job.server.requests) <= 7


def test_a_circuit_that_is_open_holds_up_no_other_model(job: Job) -> None:
    ill = [row(n, body={"model": "ill", "messages": [{"content": f"Say {n}."}]}) for n in range(60)]
    job.server.script(PATH, [by_number(lambda n: answers.openai.overloaded() if n < 60 else OK)])
    policy = Policy(tries=40, base=0.002, cap=0.01, max_wait=60)
    with job.of(*ill, *map(row, range(60, 70))).new(concurrency=2, policy=policy) as run:
        assert job.server.wait_for(lambda server: {number(one) for one in server.requests} >= set(range(60, 70)))
        run.abort()


def test_a_row_larger_than_its_bucket_may_be_refused(job: Job) -> None:
    large = row(1, body={"model": "m", "max_tokens": 5_000, "messages": []})
    summary = job.of(large, row(2)).run(rate=RateLimit(tokens_per_minute=1_000, oversized="refuse"))
    assert (summary.answered, summary.failed) == (1, 1)
    assert (job.failed[0]["custom_id"], job.failed[0]["error"]["code"]) == ("row 1", "refused")


def test_progress_is_told_and_what_it_raises_ends_the_run(job: Job) -> None:
    told: list[steadycall.BulkProgress] = []
    job.of(*map(row, range(20)))
    settings: Any = {"output": job.output, "base_url": job.server.url}
    summary = steadycall.bulk(job.rows, on_progress=told.append, **settings)
    assert summary.answered == 20
    assert (told[-1].done, told[-1].left, told[-1].rows) == (20, 0, 20)
    job.server.answer(PATH, Answer(never=True))
    job.output.unlink()
    job.journal.unlink()

    def fail(progress: steadycall.BulkProgress) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        steadycall.bulk(job.rows, on_progress=fail, **settings)
    assert job.server.wait_for(lambda server: server.in_flight == 0)


def test_a_plan_says_what_a_run_would_send_and_sends_nothing(job: Job) -> None:
    job.of(*map(row, range(10)), "nonsense")
    plan = job.new(rate=RateLimit(60), policy=Policy(tries=3, attempt_timeout=10, base=1, cap=1, max_wait=1)).plan()
    assert (plan.rows, plan.bad_lines, plan.to_send, plan.worst_requests) == (10, 1, 10, 30)
    assert 0 < plan.largest <= plan.tokens
    assert plan.least_seconds == 4.0  # six go at once
    assert plan.worst_seconds == 32.0
    assert not job.server.requests
    assert not job.output.exists()
    job.run()
    assert job.new().plan().to_send == 0
    assert job.new().plan().earlier == 11
    assert job.new(retry_failed=True).plan().earlier == 10


def test_a_run_is_started_once_and_may_be_watched_from_other_threads(job: Job) -> None:
    job.server.answer(PATH, OK.replace(delay=0.05))
    with job.of(row(1)).new() as run:
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(run.wait(10))) for _ in range(3)]
        for thread in threads:
            thread.start()
        with pytest.raises((RuntimeError, ConfigError)):
            run.start()
        for thread in threads:
            thread.join()
    assert [summary.answered for summary in found] == [1, 1, 1]


# In an event loop


def test_abulk_awaits_the_same_run(job: Job) -> None:
    job.of(*map(row, range(5)))
    told: list[Any] = []
    summary = asyncio.run(
        steadycall.abulk(job.rows, output=job.output, base_url=job.server.url, on_progress=told.append)
    )
    assert summary.answered == 5
    assert told[-1].answered == 5


def test_a_cancelled_abulk_aborts_its_run(job: Job) -> None:
    job.server.answer(PATH, Answer(never=True))
    job.of(row(1))

    async def main() -> None:
        task = asyncio.ensure_future(steadycall.abulk(job.rows, output=job.output, base_url=job.server.url))
        await job.server.await_for(lambda server: server.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert job.server.wait_for(lambda server: server.in_flight == 0)
