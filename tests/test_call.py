"""What ``call`` and ``acall`` do for what a server does: the table of the README, told as scripts.

Every story runs twice, through ``call`` and through ``acall``; nothing here sleeps for real.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import urllib.error
from datetime import timedelta

import pytest

import steadycall
from steadycall.testing import Answer, FakeClock, FakeServer, answers

OK = Answer(json={"ok": True})


def blocking(url, payload=None, **options):
    return steadycall.call(url, {} if payload is None else payload, **options)


def awaited(url, payload=None, **options):
    return asyncio.run(steadycall.acall(url, {} if payload is None else payload, **options))


@pytest.fixture(params=[blocking, awaited], ids=["call", "acall"])
def call(request):
    return request.param


@pytest.fixture
def server():
    with FakeServer() as running:
        yield running


# ---- the six lines of the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_two_503_are_waited_out_within_one_and_two_seconds(server, call, seed):
    server.answer("*", 503, 503, OK)
    waits = []
    assert call(server.url, sleep=waits.append, rng=seed) == {"ok": True}
    first, second = waits
    assert 0 <= first <= 1
    assert 0 <= second <= 2


def test_a_hint_of_two_seconds_is_waited_exactly(server, call):
    server.answer("*", answers.gemini.rate_limited("2s"), OK)
    waits = []
    assert call(server.url, sleep=waits.append) == {"ok": True}
    assert waits == [2.0]


def test_a_hint_beyond_max_wait_ends_the_call_at_once_and_is_handed_over(server, call):
    server.answer("*", answers.gemini.rate_limited("2970.938289688s"), OK)
    waits = []
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(server.url, sleep=waits.append)
    assert caught.value.code == 429
    assert caught.value.retry_after == 2970.938289688
    assert caught.value.stop_reason == "hint_too_long"
    assert (waits, len(server.requests)) == ([], 1)


def test_a_400_ends_the_call_at_once(server, call):
    server.answer("*", answers.openai.bad_request(), OK)
    waits = []
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(server.url, sleep=waits.append)
    assert caught.value.code == 400
    assert json.loads(caught.value.read())["error"]["type"] == "invalid_request_error"
    assert (waits, len(server.requests)) == ([], 1)


def test_503_for_ever_is_three_requests_and_two_waits_with_three_tries(server, call):
    server.answer("*", 503)
    waits = []
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        call(server.url, tries=3, sleep=waits.append)
    assert (caught.value.code, caught.value.stop_reason) == (503, "tries")
    assert (len(waits), len(server.requests)) == (2, 3)


@pytest.mark.parametrize("quota", [answers.gemini.daily_quota("20s"), answers.openai.insufficient_quota()])
def test_a_spent_quota_ends_the_call_at_once_whatever_short_hint_it_carries(server, call, quota):
    server.answer("*", quota, OK)
    waits = []
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        call(server.url, sleep=waits.append)
    assert caught.value.kind == "permanent"
    assert (waits, len(server.requests)) == ([], 1)


# ---- sleeping ----------------------------------------------------------------------------------------------------


def test_a_hint_of_zero_is_no_hint_and_sleep_is_still_called_once_per_retry(server, call):
    server.answer("*", Answer(429, headers={"retry-after": "0"}, json={}), 503, OK)
    waits = []
    call(server.url, base=0, sleep=waits.append)
    assert waits == [0.0, 0.0]


def test_the_default_sleep_is_looked_up_on_its_module_at_each_wait(server, call, monkeypatch):
    server.answer("*", answers.gemini.rate_limited("2s"), OK)
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)

    async def note(wait):
        waits.append(wait)

    monkeypatch.setattr("asyncio.sleep", note)
    call(server.url)
    assert waits == [2.0]


def test_time_sleep_given_to_acall_means_asyncio_sleep(server, monkeypatch):
    import time

    server.answer("*", answers.gemini.rate_limited("2s"), OK)
    waits = []

    async def note(wait):
        waits.append(wait)

    monkeypatch.setattr("asyncio.sleep", note)
    awaited(server.url, sleep=time.sleep)
    assert waits == [2.0]


def test_a_coroutine_function_as_sleep_is_awaited_by_acall_and_refused_by_call(server):
    server.answer("*", 503, OK, 503)
    clock = FakeClock()
    assert awaited(server.url, sleep=clock.asleep) == {"ok": True}
    assert len(clock.sleeps) == 1
    with pytest.raises(steadycall.ConfigError, match="sleep must be a plain callable"):
        blocking(server.url, sleep=clock.asleep)
    assert len(server.requests) == 2


def test_what_sleep_raises_ends_the_call_as_itself(server, call):
    server.answer("*", 503, OK)

    def fed_up(_wait):
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        call(server.url, sleep=fed_up)
    assert len(server.requests) == 1


def test_the_same_seed_gives_the_same_waits(server, call):
    server.answer("*", 503)
    runs = []
    for rng in (7, 7, random.Random(7)):
        waits = []
        with pytest.raises(steadycall.HTTPStatusError):
            call(server.url, sleep=waits.append, rng=rng)
        runs.append(waits)
    assert runs[0] == runs[1] == runs[2]
    assert len(set(runs[0])) == 4


# ---- time --------------------------------------------------------------------------------------------------------


def test_a_wait_that_would_reach_the_deadline_is_not_begun(server, call):
    server.answer("*", answers.gemini.rate_limited("4s"))
    clock, waits = FakeClock(), []
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        call(server.url, deadline=10, clock=clock, sleep=waits.append)
    assert waits == [4.0, 4.0]  # the clock stood still, so the call counted the waits itself
    assert caught.value.stage == "retry_delay"
    assert caught.value.retry_after == 4.0
    assert isinstance(caught.value.__cause__, steadycall.HTTPStatusError)
    assert isinstance(caught.value, TimeoutError)


def test_a_deadline_cuts_the_running_attempt(server, call):
    server.answer("*", Answer(never=True))
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        call(server.url, deadline=timedelta(milliseconds=80))
    assert caught.value.stage == "attempt"
    assert caught.value.sent == "maybe"
    assert 0.08 <= caught.value.elapsed < 2


def test_a_handed_down_deadline_brings_its_clock_and_what_is_left_of_it(server, call):
    server.answer("*", answers.gemini.rate_limited("4s"))
    clock = FakeClock()
    deadline = steadycall.Deadline.after(10, clock=clock)
    clock.advance(5)
    with pytest.raises(steadycall.DeadlineExceeded):
        call(server.url, deadline=deadline, sleep=clock.sleep)
    assert clock.sleeps == [4.0]


def test_a_deadline_that_has_passed_sends_nothing(server, call):
    clock = FakeClock()
    deadline = steadycall.Deadline.after(1, clock=clock)
    clock.advance(1)
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        call(server.url, deadline=deadline)
    assert (caught.value.stage, caught.value.sent, caught.value.attempts) == ("before_attempt", "no", ())
    assert server.requests == []


def test_a_silent_model_is_asked_at_most_twice_and_the_message_helps(server, call):
    server.answer("*", Answer(never=True))
    waits = []
    with pytest.raises(steadycall.AttemptTimeout) as caught:
        call(server.url, timeout=0.05, sleep=waits.append)
    assert (caught.value.phase, caught.value.sent) == ("read", "maybe")
    assert len(server.requests) == 2
    assert "may still be working" in str(caught.value)
    assert "raise timeout" in str(caught.value)


def test_an_attempt_timeout_ends_a_slow_drip(server, call):
    server.answer("*", Answer(body=b'{"a": "' + b"x" * 1000 + b'"}', drip=(1, 0.01)))
    with pytest.raises(steadycall.AttemptTimeout) as caught:
        call(server.url, tries=1, attempt_timeout=0.1)
    assert caught.value.phase == "attempt"
    assert isinstance(caught.value, TimeoutError)


def test_phases_are_timed_apart(server, call):
    server.answer("*", Answer(json={"ok": True}, delay=0.15))
    patient = steadycall.Timeout(connect=0.05, read=5, write=0.05, pool=0.05)
    assert call(server.url, timeout=patient) == {"ok": True}
    assert call(server.url, timeout=None) == {"ok": True}


# ---- transport ---------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_a_url_error_that_was_never_sent(call):
    with FakeServer() as gone:
        url = gone.url
    waits = []
    with pytest.raises(urllib.error.URLError) as caught:
        call(url, tries=2, sleep=waits.append)
    assert isinstance(caught.value, steadycall.ConnectError)
    assert caught.value.sent == "no"
    assert "refused" in caught.value.reason.lower()
    assert len(waits) == 1


def test_a_connection_that_fails_behind_a_proxy_names_the_proxy(call, monkeypatch):
    with FakeServer() as gone:
        proxy = gone.url.removeprefix("http://")
    with pytest.raises(steadycall.ConnectError, match=f"through the proxy {proxy}"):
        call("http://llm.invalid/", proxy=f"http://user:SECRET@{proxy}", tries=1)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTP_PROXY", f"http://user:SECRET@{proxy}")
    with pytest.raises(steadycall.ConnectError, match="with HTTP_PROXY set") as caught:
        call("http://llm.invalid/", tries=1)
    assert "SECRET" not in str(caught.value)


def test_a_clock_that_gives_no_number_is_refused(server, call):
    with pytest.raises(steadycall.ConfigError, match="clock"):
        call(server.url, clock=lambda: "noon")


@pytest.mark.parametrize("fault", [{"reset": "before"}, {"reset": "headers"}, {"reset": "body"}, {"garbage": b""}])
def test_a_broken_connection_is_retried(server, call, fault):
    server.answer("*", Answer(json={"a": "b" * 100}, **fault), OK)
    waits = []
    assert call(server.url, sleep=waits.append) == {"ok": True}
    assert len(waits) == 1


def test_a_body_cut_short_is_retried_and_else_a_value_error_with_what_came(server, call):
    cut = Answer(json={"text": "x" * 50}, truncate=20)
    server.answer("*", cut, OK)
    assert call(server.url, sleep=[].append) == {"ok": True}
    server.answer("*", cut)
    with pytest.raises(ValueError, match="ends in the middle") as caught:
        call(server.url, tries=1)
    assert isinstance(caught.value, steadycall.ResponseError)
    assert caught.value.body == b'{"text": "xxxxxxxxxxxxxxxxxx'[:20]


def test_the_old_loop_is_two_options_away(server, call):
    old = {"retry_status": {429, 500, 503, 504}, "retry_transport": False}
    for answer in (Answer(reset="before"), 502, 408):
        server.answer("*", answer, OK)
        with pytest.raises(OSError):
            call(server.url, sleep=[].append, **old)
    server.answer("*", 500, OK)
    assert call(server.url, sleep=[].append, **old) == {"ok": True}


def test_what_may_have_been_processed_is_not_sent_again_when_forbidden(server, call):
    server.answer("*", Answer(reset="before"), OK)
    with pytest.raises(steadycall.ReadError) as caught:
        call(server.url, retry_maybe_processed=False, sleep=[].append)
    assert (caught.value.sent, caught.value.stop_reason) == ("maybe", "not_retryable")
    server.answer("*", 503, OK)
    assert call(server.url, retry_maybe_processed=False, sleep=[].append) == {"ok": True}


# ---- 2xx that are no answer --------------------------------------------------------------------------------------


def test_an_error_inside_a_200_is_classified_as_that_error(server, call):
    inside = Answer(json={"error": {"code": 429, "message": "rate limited upstream. Please retry shortly."}})
    server.answer("*", inside, OK)
    waits = []
    assert call(server.url, sleep=waits.append) == {"ok": True}
    assert len(waits) == 1
    server.answer("*", Answer(json={"error": {"code": "insufficient_quota", "message": "You exceeded it."}}))
    with pytest.raises(steadycall.ResponseError) as caught:
        call(server.url, sleep=waits.append)
    error = caught.value
    assert (error.status, error.kind, error.provider_code) == (200, "permanent", "insufficient_quota")
    assert json.loads(error.body)["error"]["message"] == "You exceeded it."


def test_a_web_page_is_not_asked_for_again(server, call):
    server.answer("*", Answer(body=b"<!doctype html><html></html>", headers={"content-type": "text/html"}))
    with pytest.raises(steadycall.ResponseError) as caught:
        call(server.url)
    assert len(server.requests) == 1
    assert caught.value.body.startswith(b"<!doctype")


@pytest.mark.parametrize("status", [204, 205])
def test_a_status_without_content_is_not_asked_for_again(server, call, status):
    server.answer("*", Answer(status))
    with pytest.raises(steadycall.ResponseError, match="no answer"):
        call(server.url, sleep=[].append)
    assert len(server.requests) == 1


def test_json_too_deep_for_python_is_a_response_error(server, call):
    server.answer("*", Answer(body=b"[" * 100_000 + b"]" * 100_000))
    with pytest.raises(steadycall.ResponseError) as caught:
        call(server.url, tries=1)
    assert isinstance(caught.value.__cause__, RecursionError)


def test_an_answer_larger_than_allowed_is_refused(server, call):
    server.answer("*", Answer(big=10_000))
    with pytest.raises(steadycall.ResponseError, match="max_response_bytes") as caught:
        call(server.url, max_response_bytes=5_000)
    assert caught.value.kind == "permanent"
    assert len(server.requests) == 1


# ---- the request -------------------------------------------------------------------------------------------------


def test_the_request_is_a_json_post_with_the_callers_headers_over_ours(server, call):
    server.answer("*", OK)
    call(
        server.url_for("/v1/x?key=k"), {"näme": [1, None]}, headers={"Authorization": "Bearer t", "user-agent": "mine"}
    )
    request = server.requests[0]
    assert (request.method, request.path, request.query) == ("POST", "/v1/x", "key=k")
    assert request.json() == {"näme": [1, None]}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers.get_all("user-agent") == ["mine"]


def test_bytes_go_as_they_are(server, call):
    server.answer("*", OK)
    call(server.url, b'{"raw" : 1}')
    assert server.requests[0].body == b'{"raw" : 1}'


def test_a_headers_callable_is_asked_before_each_attempt(server, call):
    server.answer("*", 503, 503, OK)
    tokens = iter("abc")
    call(server.url, headers=lambda: {"authorization": next(tokens)}, sleep=[].append)
    assert [request.headers["authorization"] for request in server.requests] == ["a", "b", "c"]


def test_acall_awaits_an_async_headers_callable(server):
    server.answer("*", 503, OK)

    async def token():
        return [("authorization", "fresh")]

    awaited(server.url, headers=token, sleep=[].append)
    assert [request.headers["authorization"] for request in server.requests] == ["fresh", "fresh"]


def test_the_idempotency_key_is_the_same_on_every_attempt(server, call):
    server.answer("*", 503, OK)
    call(server.url, idempotency_key="order-7", sleep=[].append)
    assert [request.headers["idempotency-key"] for request in server.requests] == ["order-7", "order-7"]


def test_a_payload_json_refuses_raises_what_json_raises_and_sends_nothing(server, call):
    for payload in (object(), {(1, 2): 3}, {"a": {1, 2}}):
        with pytest.raises(TypeError) as ours:
            call(server.url, payload)
        with pytest.raises(TypeError) as theirs:
            json.dumps(payload)
        assert str(ours.value) == str(theirs.value)
    circle = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular reference"):
        call(server.url, circle)
    assert server.requests == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_origin_is_followed_with_method_and_body(server, call, status):
    server.answer("/old", Answer(status, headers={"location": "/new"}))
    server.answer("/new", OK)
    assert call(server.url_for("/old"), {"n": 1}, headers={"authorization": "t"}) == {"ok": True}
    assert server.requests[1].json() == {"n": 1}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_never_follow_a_redirect_to_another_origin(server, call, status):
    with FakeServer(OK) as other:
        server.answer("*", Answer(status, headers={"location": other.url_for("/steal")}))
        with pytest.raises(steadycall.HTTPStatusError) as caught:
            call(server.url, headers={"authorization": "t"})
        assert caught.value.code == status
        assert other.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_answers_are_decoded(server, call, encoding):
    server.answer("*", Answer(json={"ok": True}, content_encoding=encoding))
    assert call(server.url) == {"ok": True}


# ---- observers ---------------------------------------------------------------------------------------------------


def test_on_retry_sees_each_retried_attempt_and_on_end_the_whole_call(server, call):
    server.answer("*", answers.gemini.rate_limited("2s"), 503, answers.openai.ok())
    retried, ended = [], []
    call(server.url, sleep=[].append, on_retry=retried.append, on_end=ended.append)
    assert [(record.number, record.status, record.kind) for record in retried] == [
        (1, 429, "rate_limited"),
        (2, 503, "call"),
    ]
    assert (retried[0].hint, retried[0].hint_source, retried[0].wait) == (2.0, "RetryInfo", 2.0)
    (whole,) = ended
    assert (whole.outcome, whole.stop_reason, whole.requests) == ("answered", None, 3)
    assert whole.attempts[2].delivered
    assert whole.usage is not None
    assert whole.usage["total_tokens"] > 0
    with pytest.raises(AttributeError, match="frozen"):
        whole.outcome = "changed"


def test_on_end_is_told_failures_too(server, call):
    server.answer("*", 503)
    ended = []
    with pytest.raises(steadycall.HTTPStatusError):
        call(server.url, tries=2, sleep=[].append, on_end=ended.append)
    (whole,) = ended
    assert (whole.outcome, whole.stop_reason, len(whole.attempts)) == ("tries", "tries", 2)


def test_an_observer_that_fails_changes_nothing_and_is_logged(server, call, caplog):
    server.answer("*", 503, OK)

    def broken(_record):
        raise LookupError("observer bug")

    assert call(server.url, sleep=[].append, on_retry=broken, on_end=broken) == {"ok": True}
    assert sum("observer" in record.message for record in caplog.records) == 2


def test_retries_are_logged_without_key_query_or_prompt(server, call, caplog):
    caplog.set_level(logging.INFO, "steadycall")
    server.answer("*", answers.gemini.rate_limited("2s"), OK)
    call(server.url_for("/v1?key=SECRET"), {"prompt": "SECRET"}, headers={"x-api-key": "SECRET"}, sleep=[].append)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "steadycall"]
    assert "429" in line
    assert "RetryInfo" in line
    assert "SECRET" not in line


# ---- values that make no sense -----------------------------------------------------------------------------------

NONSENSE = [
    ({"tries": 0}, "tries"),
    ({"tries": True}, "tries"),
    ({"tries": 2.0}, "tries"),
    ({"tries": "3"}, "tries"),
    ({"base": -1}, "base"),
    ({"base": True}, "base"),
    ({"cap": float("inf")}, "cap"),
    ({"max_wait": float("nan")}, "max_wait"),
    ({"max_wait": 10**400}, "max_wait"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": "30"}, "timeout"),
    ({"attempt_timeout": float("inf")}, "attempt_timeout"),
    ({"deadline": 0}, "deadline"),
    ({"deadline": timedelta(seconds=-1)}, "deadline"),
    ({"retry_status": {42}}, "retry_status"),
    ({"retry_status": 503}, "retry_status"),
    ({"retry_status": {True}}, "retry_status"),
    ({"retry_transport": 1}, "retry_transport"),
    ({"retry_maybe_processed": None}, "retry_maybe_processed"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": "a\nb"}, "idempotency_key"),
    ({"idempotency_key": "n\u00e4chste"}, "idempotency_key"),
    ({"idempotency_key": "order 7"}, "idempotency_key"),
    ({"idempotency_key": "a", "headers": {"Idempotency-Key": "b"}}, "idempotency_key"),
    ({"idempotency_key": "a", "headers": lambda: {"idempotency-key": "a"}}, "idempotency_key"),
    ({"idempotency_key": 7}, "idempotency_key"),
    ({"on_retry": "log"}, "on_retry"),
    ({"on_end": 1}, "on_end"),
    ({"rng": True}, "rng"),
    ({"rng": object()}, "rng"),
    ({"clock": 3}, "clock"),
    ({"sleep": 3}, "sleep"),
    ({"headers": {"x": "a\r\nevil: 1"}}, "headers"),
    ({"headers": {"x y": "a"}}, "headers"),
    ({"headers": {"x": 3}}, "headers"),
    ({"headers": "authorization: t"}, "headers"),
    ({"headers": {"Content-Length": "3"}}, "headers"),
    ({"max_response_bytes": 0}, "max_response_bytes"),
    ({"proxy": ""}, "proxy"),
    ({"proxy": "nonsense://x"}, "proxy"),
    ({"ca_bundle": "/does/not/exist.pem"}, "ca_bundle"),
    ({"ca_bundle": 3}, "ca_bundle"),
]


@pytest.mark.parametrize(("options", "field"), NONSENSE, ids=[str(options) for options, _ in NONSENSE])
def test_a_value_that_makes_no_sense_is_named_before_anything_is_sent(server, call, options, field):
    server.answer("*", OK)
    with pytest.raises(steadycall.ConfigError) as caught:
        call(server.url, **options)
    assert caught.value.field.startswith(field)
    assert field in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert server.requests == []


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x/", "file:///etc/passwd", "http://", "http://u:p@x/", "http://x/\r\nevil", 3, None]
)
def test_a_url_that_is_no_http_url_is_refused(call, url):
    with pytest.raises(steadycall.ConfigError, match="url must be an http or https URL"):
        call(url)


def test_an_unknown_keyword_is_a_type_error(call):
    with pytest.raises(TypeError, match="retries"):
        call("http://x/", retries=3)


def test_secrets_are_in_no_error_text(server, call):
    server.answer("*", 400, Answer(reset="before"), Answer(body=b"<html>SECRET</html>"))
    for _ in range(3):
        with pytest.raises(steadycall.CallError) as caught:
            call(server.url_for("/p?key=SECRET"), {"prompt": "SECRET"}, tries=1, headers={"authorization": "SECRET"})
        error = caught.value
        shown = [str(error), repr(error), error.why, error.safe_message, repr(error.attempts), repr(error.args)]
        assert not any("SECRET" in text for text in shown)
    with pytest.raises(steadycall.ConfigError) as refused:
        call("http://user:SECRET@x/?key=SECRET")
    assert "SECRET" not in str(refused.value)
    with pytest.raises(steadycall.ConfigError) as refused:
        call("http://x/", headers={"authorization": "SECRET\n"})
    assert "SECRET" not in str(refused.value)


KEY = "sk-Proj-0123456789abcdef"
CARRIERS = [
    ("/p", {"headers": {"authorization": f"Bearer {KEY}"}}),
    ("/p", {"headers": {"X-Api-Key": KEY}}),
    ("/p", {"headers": [("cookie", f'theme=dark; session="{KEY}"')]}),
    ("/p", {"headers": lambda: {"x-auth-token": KEY.encode()}}),
    (f"/p?v=1&key={KEY}", {}),
    (f"/p?{KEY}", {}),
]


@pytest.mark.parametrize(("path", "options"), CARRIERS)
@pytest.mark.parametrize("code", [KEY, f"bad_key:{KEY}", f"Bearer {KEY}", KEY.upper(), KEY[:18]])
def test_an_error_code_that_repeats_a_credential_is_not_passed_on(server, call, caplog, path, options, code):
    caplog.set_level(logging.INFO, "steadycall")
    server.answer("*", Answer(503, headers={"x-request-id": code}, json={"error": {"code": code, "message": "no"}}))
    retried, ended = [], []
    told = {"on_retry": retried.append, "on_end": ended.append}
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        call(server.url_for(path), tries=2, sleep=[].append, **options, **told)
    error = caught.value
    assert (error.provider_code, error.request_id) == (None, None)
    shown = [str(error), repr(error), repr(error.attempts), repr(retried), repr(ended), caplog.text]
    assert not any(KEY[:18].lower() in text.lower() for text in shown)


def test_an_error_code_that_has_a_word_in_common_with_the_request_is_passed_on(server, call):
    server.answer("*", Answer(400, headers={"x-request-id": "r-1"}, json={"error": {"code": "invalid_json"}}))
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        call(server.url_for("/p?alt=json&key=k"), headers={"authorization": "Bearer t", "x-model": "invalid_json"})
    assert (caught.value.provider_code, caught.value.request_id) == ("invalid_json", "r-1")
