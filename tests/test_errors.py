"""The errors, as code around a hand-written loop meets them: urllib's names, and copies that lose nothing.

Errors come from real calls, because how they are made is part of what may break. Runs on every supported Python.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
import socket
import urllib.error
from datetime import UTC, datetime, timedelta

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer, answers

CASES = {
    "HTTPStatusError": (answers.openai.rate_limited(retry_after=7), {"max_wait": 1}),
    "AttemptTimeout": (Answer(never=True), {"timeout": 0.03}),
    "ReadError": (Answer(reset="before"), {}),
    "ResponseError": (Answer(body=b'{"cut'), {}),
    "DeadlineExceeded": (503, {"deadline": 0.5, "base": 0.0, "tries": 3, "max_wait": 5}),
    "ConnectError": (None, {}),
}


def caught(name):
    answer, options = CASES[name]
    if name == "DeadlineExceeded":
        answer = answers.openai.rate_limited(retry_after=3)
    with FakeServer(answer or 200) as server:
        url = server.url_for("/v1/chat?key=SECRET")
        if name == "ConnectError":
            server.close()
        try:
            steadycall.call(url, {}, **{"tries": 1, "sleep": [].append, **options})
        except steadycall.CallError as error:
            return error
    raise AssertionError("the call should have failed")


@pytest.fixture(params=CASES)
def error(request):
    made = caught(request.param)
    assert type(made).__name__ == request.param
    return made


COPIES = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "oldest pickle": lambda error: pickle.loads(pickle.dumps(error, protocol=0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}

FIELDS = [
    *("kind", "stop_reason", "why", "safe_message", "attempts", "elapsed", "retry_after", "retry_at", "request_id"),
    *("sent", "provider_code", "code", "reason", "url", "filename", "body", "phase", "stage", "status", "args"),
]


@pytest.mark.parametrize("copying", COPIES)
def test_a_copy_is_the_same_error(error, copying):
    error.add_note("seen in the nightly run")
    twin = COPIES[copying](error)
    assert type(twin) is type(error)
    assert (str(twin), repr(twin)) == (str(error), repr(error))
    assert twin.__notes__ == ["seen in the nightly run"]
    for name in FIELDS:
        assert hasattr(twin, name) == hasattr(error, name), name
        assert getattr(twin, name, None) == getattr(error, name, None), name


@pytest.mark.parametrize("copying", COPIES)
def test_the_cause_is_carried_along(copying):
    twin = COPIES[copying](caught("DeadlineExceeded"))
    assert isinstance(twin.__cause__, steadycall.HTTPStatusError)
    assert twin.__cause__.code == 429


def test_asking_for_what_is_not_there_is_an_attribute_error(error):
    assert not hasattr(error, "no_such_thing")
    blank = type(error).__new__(type(error))
    assert not hasattr(blank, "no_such_thing")


def test_the_answer_reads_as_urllibs_does():
    error = caught("HTTPStatusError")
    assert isinstance(error, urllib.error.HTTPError)
    assert isinstance(error, OSError)
    assert (error.code, error.status, error.reason, error.msg) == (429, 429, "Too Many Requests", "Too Many Requests")
    assert error.headers["RETRY-AFTER"] == "7"
    assert error.headers.get_content_type() == "application/json"
    assert error.hdrs is error.headers
    assert error.info() is error.headers
    assert error.getcode() == 429
    assert error.url == error.filename == error.geturl()
    assert error.url.endswith("/v1/chat")
    assert json.loads(error.read())["error"]["type"]
    assert error.read() == b""
    assert json.loads(error.body)["error"]["type"]
    with error:
        pass
    assert error.closed


@pytest.mark.parametrize("copying", COPIES)
def test_a_copy_after_reading_keeps_body_and_place(copying):
    error = caught("HTTPStatusError")
    start = error.read(5)
    twin = COPIES[copying](error)
    assert start + twin.read() == error.body == twin.body
    assert twin.headers["retry-after"] == "7"
    error.close()
    assert COPIES[copying](error).body == error.body


def test_a_transport_error_reads_as_urllibs_does():
    error = caught("ConnectError")
    assert isinstance(error, urllib.error.URLError)
    assert "refused" in error.reason.lower()
    assert error.args == (error.reason,)
    timeout = caught("AttemptTimeout")
    assert isinstance(timeout, (TimeoutError, urllib.error.URLError))
    assert isinstance(timeout, socket.timeout)


def test_a_hint_becomes_a_point_in_time_in_utc():
    before = datetime.now(UTC)
    error = caught("HTTPStatusError")
    assert error.retry_after == 7.0
    assert error.retry_at.tzinfo is UTC
    assert timedelta(seconds=7) <= error.retry_at - before < timedelta(seconds=10)
    with FakeServer(answers.openai.rate_limited(retry_after="9" * 400)) as server:
        with pytest.raises(steadycall.HTTPStatusError) as endless:
            steadycall.call(server.url, {})
    assert endless.value.retry_after == float("inf")
    assert endless.value.retry_at is None


def test_a_message_tells_status_code_attempts_and_why_it_stopped():
    with FakeServer(answers.openai.insufficient_quota()) as server, pytest.raises(steadycall.CallError) as stopped:
        steadycall.call(server.url, {})
    text = str(stopped.value)
    for part in ("429", "insufficient_quota", "1 attempt", "retry cannot fix"):
        assert part in text
    assert text == stopped.value.why
    assert "quota" not in stopped.value.safe_message


def test_the_attempts_are_on_the_error():
    with FakeServer(503) as server, pytest.raises(steadycall.CallError) as stopped:
        steadycall.call(server.url, {}, tries=3, sleep=[].append)
    attempts = stopped.value.attempts
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [attempt.wait is None for attempt in attempts] == [False, False, True]
    assert pickle.loads(pickle.dumps(attempts)) == attempts
    assert len({hash(attempt) for attempt in attempts}) == 3


def test_an_error_can_be_raised_again_and_keeps_its_type_tree():
    tree = {
        steadycall.ConfigError: (steadycall.Error, ValueError),
        steadycall.HTTPStatusError: (steadycall.CallError, urllib.error.HTTPError),
        steadycall.ConnectError: (steadycall.TransportError, urllib.error.URLError),
        steadycall.TLSError: (steadycall.TransportError,),
        steadycall.ProxyError: (steadycall.TransportError,),
        steadycall.ReadError: (steadycall.TransportError,),
        steadycall.AttemptTimeout: (steadycall.TransportError, TimeoutError),
        steadycall.DeadlineExceeded: (steadycall.CallError, TimeoutError),
        steadycall.ResponseError: (steadycall.CallError, ValueError),
    }
    for error, parents in tree.items():
        assert all(issubclass(error, parent) for parent in parents)
    config = pickle.loads(pickle.dumps(steadycall.ConfigError("tries", "0", "at least 1")))
    assert str(config) == "tries must be at least 1, got 0"


def test_a_deadline_crosses_a_process_boundary_as_seconds_left():
    deadline = steadycall.Deadline.after(60)
    twin = pickle.loads(pickle.dumps(deadline))
    assert 59 < twin.remaining() <= 60
    assert twin.require(1) > 59
    with pytest.raises(steadycall.DeadlineExceeded):
        twin.require(61)
    with pytest.raises(steadycall.ConfigError):
        steadycall.Deadline.after(0)


# ---- what the message says ---------------------------------------------------------------------------------------

SILENT = Answer(never=True)


def message(answer, **options):
    with FakeServer(answer or 200) as server:
        if answer is None:
            server.close()
        with pytest.raises(steadycall.CallError) as failed:
            steadycall.call(server.url, {}, **({"sleep": [].append} | options))
    return str(failed.value)


def test_an_attempt_cut_by_the_deadline_is_told_of_the_deadline_only():
    for options in ({}, {"attempt_timeout": 9}):
        with FakeServer(SILENT) as server, pytest.raises(steadycall.DeadlineExceeded) as failed:
            steadycall.call(server.url, {}, deadline=0.08, **options)
        cause = failed.value.__cause__
        assert "cut" in cause.reason
        for text in (str(failed.value), str(cause)):
            assert "the deadline cut the attempt" in text
            assert "raise deadline to wait" in text
            assert "timeout" not in text


def test_an_attempt_timeout_is_told_as_the_number_to_raise():
    for options in ({}, {"deadline": 9}):
        text = message(SILENT, attempt_timeout=0.05, tries=1, **options)
        assert "raise attempt_timeout to wait" in text
        assert "deadline" not in text


@pytest.mark.parametrize(
    ("tries", "told"), [(1, "the one try is used up."), (2, "both tries are used up."), (3, "all 3 tries are used up.")]
)
def test_used_up_tries_are_counted_as_people_count(tries, told):
    assert told in message(503, tries=tries)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, r"^no connection to \S+ \(.*refused.*\)\. Stopped"),
        (SILENT, r"^no answer from \S+ \(the server was silent"),
        (Answer(reset="before"), r"^no answer from \S+ \("),
        (Answer(json={"text": "x" * 50}, truncate=20), r"^no whole answer from \S+ \("),
        (Answer(json={"text": "x" * 50}, reset="body"), r"^no whole answer from \S+ \("),
    ],
)
def test_what_is_lacking_is_named_after_how_far_it_got(answer, told):
    assert re.search(told, message(answer, tries=1, timeout=0.05))
