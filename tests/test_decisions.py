"""``steadycall.classify`` against real failures: the decision a careful engineer would take for each answer.

The cases stand in ``tests/cases/decisions.jsonl``; ``STEADYCALL_CASES`` names another file of the same form.
Judged with ``max_wait`` = 120 s. A wait counts as right from the stated value up to 1 s or 2 % above, never below.
"""

from __future__ import annotations

import base64
import json
import os
from datetime import datetime
from pathlib import Path

import pytest

import steadycall

CASES = Path(os.environ.get("STEADYCALL_CASES") or Path(__file__).parent / "cases" / "decisions.jsonl")
MAX_WAIT = 120.0


def judged(case):
    given = case["input"]
    body = given.get("body_text")
    now = given.get("now")
    return steadycall.classify(
        status=given["status"],
        headers=given.get("headers") or given.get("headers_list") or {},
        body=base64.b64decode(given["body_base64"]) if body is None else body,
        url=given.get("url"),
        now=None if now is None else datetime.fromisoformat(now).timestamp(),
    )


def wrong(case):
    """What is wrong with our judgement of a case; ``None`` when it is right."""
    failure, expected = judged(case), case["expect"]
    if failure is None:
        return "judged a good answer"
    hint = None if failure.hint is None else failure.hint.seconds
    retry = failure.retryable and (hint is None or hint <= MAX_WAIT)
    if retry != expected["retry"]:
        return f"retry is {retry}: {failure.reason}"
    if "kind" in expected and failure.kind != expected["kind"] and retry == (failure.kind == "permanent"):
        return f"kind is {failure.kind}: {failure.reason}"
    wait = expected.get("wait_s")
    if wait == "backoff" and hint is not None:
        return f"waits for a hint of {hint} s from {failure.hint.source}"
    if isinstance(wait, (int, float)) and (hint is None or not wait <= hint <= max(wait + 1, wait * 1.02)):
        return f"the hint is {hint} s and should be {wait} s"
    return None


def test_at_least_98_percent_of_the_sure_cases_are_judged_right(capsys):
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines() if line.strip()]
    misses = {row["id"]: why for row in rows if (why := wrong(row))}
    sure = [row for row in rows if row["confidence"] != "low"]
    right = [row for row in sure if row["id"] not in misses]
    with capsys.disabled():
        print(f"\nclassify: {len(right)} of {len(sure)} sure cases right ({len(right) / len(sure):.1%}); misses:")
        for row in rows:
            if row["id"] in misses:
                print(f"  {row['id']} ({row['confidence']} confidence): {misses[row['id']]} - {row['why']}")
    assert len(right) >= 0.98 * len(sure)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"status": 99}, "status"),
        ({"status": 600}, "status"),
        ({"status": True}, "status"),
        ({"status": "429"}, "status"),
        ({"status": 429, "dialect": "klingon"}, "dialect"),
        ({"status": 429, "body": 3}, "body"),
        ({"status": 429, "headers": "retry-after: 3"}, "headers"),
    ],
)
def test_what_is_no_http_answer_is_refused_by_name(given, field):
    with pytest.raises(steadycall.ConfigError) as caught:
        steadycall.classify(**given)
    assert caught.value.field == field


def test_a_failure_says_everything_in_plain_words():
    failure = steadycall.classify(
        status=429,
        headers=[("Retry-After", "2"), ("x-other", "1")],
        body='{"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}',
        url="https://api.openai.com/v1/chat/completions",
    )
    assert (failure.kind, failure.retryable, failure.status) == ("rate_limited", True, 429)
    assert failure.hint == steadycall.Hint(seconds=2.0, source="Retry-After")
    assert (failure.provider_code, failure.dialect, failure.sent) == ("rate_limit_exceeded", "openai", "no")
    assert failure.reason.endswith(".")
    assert steadycall.classify(status=200, body=b'{"choices": []}') is None


def test_a_body_of_any_bytes_is_judged_and_never_raises():
    for body in (b"", b"\xff\xfe\x00", "\ud800", "{" * 5000, b"[" * 5000 + b"]" * 5000, "\u00b2"):
        for status in (200, 404, 429, 500, 503):
            assert status < 300 or steadycall.classify(status=status, body=body) is not None
            steadycall.classify(status=status, body=body)
