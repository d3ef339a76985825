"""The real errors of HTTP clients, raised by a scripted server."""

from __future__ import annotations

import urllib.request

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

import steadycall
from steadycall.testing import Answer, FakeServer, answers

from .faults import NO_CONNECTION, OPENAI, TRANSPORT, Expected, check, raised, serving

BODY = {"model": "m"}


def with_urllib(url):
    request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=0.3) as response:
        return response.read()


def with_urllib3(url):
    response = urllib3.PoolManager().request("POST", url, json=BODY, timeout=0.3, retries=False)
    return response.data


def with_urllib3_retries(url):
    return urllib3.PoolManager().request("POST", url, json=BODY, timeout=0.3, retries=urllib3.Retry(1)).data


def with_requests(url):
    response = requests.post(url, json=BODY, timeout=0.3)
    response.raise_for_status()
    return response.json()


def with_httpx(url, module=httpx):
    response = module.post(url, json=BODY, timeout=0.3)
    response.raise_for_status()


async def with_async_httpx(url, module=httpx):
    async with module.AsyncClient(timeout=0.3) as client:
        (await client.post(url, json=BODY)).raise_for_status()


def with_httpx2(url):
    with_httpx(url, httpx2)


async def with_async_httpx2(url):
    await with_async_httpx(url, httpx2)


async def with_aiohttp(url):
    timeout = aiohttp.ClientTimeout(sock_read=0.3, sock_connect=0.3)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, json=BODY) as response:
        response.raise_for_status()
        await response.json()


KEEP_THE_BODY = [with_urllib, with_requests, with_httpx, with_async_httpx, with_httpx2, with_async_httpx2]
ALL = [*KEEP_THE_BODY, with_aiohttp, with_urllib3]


@pytest.mark.parametrize("fault", OPENAI)
@pytest.mark.parametrize("client", KEEP_THE_BODY)
def test_an_answer_is_judged_by_status_headers_and_body(client, fault):
    answer, expected = OPENAI[fault]
    with serving(answer) as url:
        check(raised(client, url), expected)


@pytest.mark.parametrize("fault", TRANSPORT)
@pytest.mark.parametrize("client", [*ALL, with_urllib3_retries])
def test_a_fault_of_the_transport_is_a_retryable_call_failure_that_says_whether_it_was_sent(client, fault):
    answer, expected = TRANSPORT[fault]
    if client is with_urllib and fault == "silent":  # urllib lets the socket's own error through, which names no phase
        expected = expected._replace(reason="longer than the time")
    with serving(answer) as url:
        check(raised(client, url), expected)


def test_aiohttp_keeps_status_and_headers_of_an_answer():
    with serving(Answer(429, headers={"Retry-After": "7"}, body=b"slow down")) as url:
        check(raised(with_aiohttp, url), Expected("rate_limited", True, 429, 7.0, "no"))
    with serving(Answer(503)) as url:
        check(raised(with_aiohttp, url), Expected("call", True, 503))
    with serving(Answer(401)) as url:
        check(raised(with_aiohttp, url), Expected("permanent", False, 401))


def test_a_page_where_json_was_expected_is_not_retried():
    page = Answer(headers={"Content-Type": "text/html"}, body=b"<html>Sign in</html>")
    with serving(page) as url:
        check(raised(with_aiohttp, url), Expected("permanent", False, reason="web page"))


def test_an_answer_that_is_not_json_is_a_validation_failure():
    with serving(Answer(body=b"Hello.")) as url:
        check(raised(with_requests, url), Expected("validation", True))


@pytest.mark.parametrize("client", ALL)
def test_a_certificate_that_is_not_trusted_is_permanent(client, tls):
    with FakeServer(answers.openai.ok(), tls=tls) as server:
        check(raised(client, server.url), Expected("permanent", False, sent="no", reason="certificate"))


@pytest.mark.parametrize("client", ALL)
def test_a_name_that_cannot_be_resolved_was_not_sent(client):
    check(raised(client, "http://nowhere.invalid/v1"), NO_CONNECTION)


@pytest.mark.parametrize(
    "client", [with_httpx, with_async_httpx, with_httpx2, with_async_httpx2, with_requests, with_aiohttp]
)
@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://"])
def test_a_url_that_nobody_can_ask_is_permanent(client, url):
    check(raised(client, url), Expected("permanent", False, reason="code itself"))


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_full_pool_has_sent_nothing(module):
    timeout = module.Timeout(5, pool=0.05)
    with (
        serving(answers.openai.ok()) as url,
        module.Client(limits=module.Limits(max_connections=1), timeout=timeout) as client,
    ):
        with client.stream("POST", url):
            error = raised(client.post, url)
    check(error, Expected("call", True, sent="no", reason="pool"))


def test_the_body_of_a_urllib_error_can_still_be_read():
    answer = answers.openai.insufficient_quota()
    with serving(answer) as url:
        error = raised(with_urllib, url)
    assert steadycall.classify_exception(error).status == 429
    first = error.read(10)
    assert steadycall.classify_exception(error).status == 429
    assert b"insufficient_quota" in first + error.read()
    assert error.read() == b""
    error.close()


def test_a_urllib_body_that_comes_in_pieces_is_read_whole():
    with serving(answers.openai.insufficient_quota().replace(drip=(50, 0.001))) as url:
        check(raised(with_urllib, url), OPENAI["no money"][1])


def test_a_large_urllib_body_can_still_be_read_whole():
    with serving(Answer(503, body=b"x" * 3_000_000)) as url:
        error = raised(with_urllib, url)
        assert steadycall.classify_exception(error).status == 503
        assert len(error.read()) == 3_000_000
        error.close()


def test_a_urllib_error_that_was_read_or_closed_is_judged_by_its_status():
    with serving(answers.openai.server_error()) as url:
        error = raised(with_urllib, url)
        error.read()
        check(error, Expected("call", True, 500))
        error.close()
        check(error, Expected("call", True, 500))
