"""Values that make no sense, one kind of value at a time: each is one ``ConfigError`` that says field, value, allowed.

Which parameters refuse what is listed in ``test_call.py``; here is what a kind of value may hide.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import math
import pickle
import random
from datetime import timedelta
from unittest import mock

import pytest

import steadycall
from steadycall import Timeout
from steadycall.testing import Answer, FakeServer

OK = Answer(json={"ok": True})


def blocking(url, **options):
    return steadycall.call(url, {}, **({"sleep": [].append} | options))


def awaited(url, **options):
    return asyncio.run(steadycall.acall(url, {}, **({"sleep": [].append} | options)))


@pytest.fixture(params=[blocking, awaited], ids=["call", "acall"])
def call(request):
    return request.param


@pytest.fixture
def server():
    with FakeServer() as running:
        yield running


def refused(act, *words):
    with pytest.raises(steadycall.ConfigError) as caught:
        act()
    assert all(word in str(caught.value) for word in words), str(caught.value)
    return caught.value


# ---- numbers -----------------------------------------------------------------------------------------------------


class HasEverything:
    def __getattr__(self, name):
        return lambda: 1.0


@pytest.mark.parametrize("value", [mock.Mock(), mock.MagicMock(), HasEverything(), object(), [], None], ids=repr)
@pytest.mark.parametrize("name", ["tries", "base", "cap", "max_wait", "max_response_bytes"])
def test_what_only_looks_like_a_number_is_refused(call, name, value):
    assert refused(lambda: call("http://x/", **{name: value})).field == name


@pytest.mark.parametrize("name", ["timeout", "attempt_timeout", "deadline"])
def test_what_only_looks_like_a_time_is_refused(call, name):
    for value in (mock.Mock(), mock.MagicMock(), HasEverything()):
        assert refused(lambda value=value: call("http://x/", **{name: value})).field == name


def test_a_timedelta_whose_own_code_fails_is_refused():
    class Broken(timedelta):
        def total_seconds(self):
            raise LookupError("no clock")

    refused(lambda: steadycall.Deadline.after(Broken(seconds=3)), "limit must be a finite number of seconds above 0")


@pytest.mark.parametrize(
    ("name", "most"), [("tries", 2**32 - 1), ("max_response_bytes", 2**63 - 1)], ids=["tries", "max_response_bytes"]
)
def test_a_number_too_large_is_shown_as_it_was_given_and_told_the_most(server, call, name, most):
    server.answer("*", OK)
    assert call(server.url, **{name: most}) == {"ok": True}
    assert refused(lambda: call("http://x/", **{name: most + 1}), f"at most {most}").value == str(most + 1)
    long = refused(lambda: call("http://x/", **{name: 10**400}), f"at most {most}").value
    assert (long[:3], long[-1], len(long)) == ("100", "…", 80)
    assert "too long" in refused(lambda: call("http://x/", **{name: 10**5000}), f"at most {most}").value
    refused(lambda: call("http://x/", **{name: -(10**400)}), "at least 1")


@pytest.mark.parametrize("drawn", [math.nan, 5.0, 1.0, -0.1, math.inf, "much", None])
def test_a_generator_that_leaves_the_range_is_named(server, call, drawn):
    class Loaded(random.Random):
        def random(self):
            return drawn

    server.answer("*", 503, OK)
    assert refused(lambda: call(server.url, rng=Loaded()), "at least 0 and below 1", repr(drawn)).field == "rng"


@pytest.mark.parametrize("reading", [math.nan, math.inf, "noon", None])
def test_a_clock_that_gives_no_finite_number_is_named(call, reading):
    assert refused(lambda: call("http://x/", clock=lambda: reading), repr(reading)).field == "clock"


# ---- Timeout -----------------------------------------------------------------------------------------------------


def test_a_timeout_takes_one_number_for_the_phases_not_named():
    assert Timeout(5.0) == Timeout(connect=5.0, read=5.0, write=5.0, pool=5.0)
    assert Timeout(5.0, read=60) == Timeout(connect=5.0, read=60, write=5.0, pool=5.0)
    assert Timeout(None, read=60) == Timeout(connect=None, read=60, write=None, pool=None)
    assert Timeout() == Timeout(30.0)


def test_a_timeout_shows_its_parameters():
    assert str(inspect.signature(Timeout)).count("...") == 4
    assert list(inspect.signature(Timeout).parameters) == ["default", "connect", "read", "write", "pool"]
    with pytest.raises(TypeError, match="from 1 to 2 positional arguments"):
        Timeout(1, 2)
    with pytest.raises(TypeError, match="reed"):
        Timeout(reed=1)


def test_a_timeout_is_a_value():
    timeout = Timeout(2, read=timedelta(seconds=9))
    assert pickle.loads(pickle.dumps(timeout)) == copy.deepcopy(timeout) == timeout
    assert {timeout: 1}[Timeout(2, read=timedelta(seconds=9))] == 1
    assert eval(repr(Timeout(2, read=None)), {"Timeout": Timeout}) == Timeout(2, read=None)
    with pytest.raises(AttributeError, match="frozen"):
        timeout.read = 3


@pytest.mark.parametrize("phase", ["connect", "read", "write", "pool"])
@pytest.mark.parametrize("value", [-3, 0, math.nan, math.inf, True, "3", mock.Mock(), 10**400], ids=repr)
def test_a_timeout_checks_its_phases_when_it_is_made(phase, value):
    wrong = refused(lambda: Timeout(**{phase: value}), "a finite number of seconds above 0, or None")
    assert wrong.field == f"timeout.{phase}"
    refused(lambda: Timeout(value), "timeout must be")


@pytest.mark.parametrize(
    ("pair", "advice"), [((1, 2), "Timeout(connect=1, read=2)"), ((None, 2.5), "Timeout(connect=None, read=2.5)")]
)
def test_a_pair_as_requests_takes_it_is_told_how_to_write_it(call, pair, advice):
    assert refused(lambda: call("http://x/", timeout=pair), advice).field == "timeout"


# ---- headers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, None, 2.5, True, ["SECRET"], object()], ids=repr)
def test_a_header_value_of_the_wrong_type_is_named_by_its_header(call, value):
    wrong = refused(lambda: call("http://x/", headers={"X-Api-Key": value}), "str or bytes")
    assert wrong.field == 'headers["x-api-key"]'
    assert "SECRET" not in str(wrong)


@pytest.mark.parametrize("headers", [5, "a: SECRET", ["SECRET"], [("SECRET",)], {"SECRET", "x"}, mock.Mock()], ids=repr)
def test_headers_of_the_wrong_type_are_refused_without_showing_them(call, headers):
    wrong = refused(lambda: call("http://x/", headers=headers))
    assert wrong.field == "headers"
    assert "SECRET" not in str(wrong)


# ---- coroutines where nobody awaits ------------------------------------------------------------------------------


async def noted(*_):
    return {}


class Noting:
    async def __call__(self, *_):
        return None

    async def method(self, *_):
        return None


ASYNC = [noted, Noting(), Noting().method, functools.partial(noted, 1), mock.AsyncMock()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["on_retry", "on_end", "clock"])
@pytest.mark.parametrize("function", ASYNC, ids=lambda function: type(function).__name__)
def test_a_coroutine_function_is_refused_where_nobody_awaits(server, call, name, function):
    server.answer("*", OK)
    assert refused(lambda: call(server.url, **{name: function}), "no coroutine function").field == name
    assert server.requests == []


@pytest.mark.filterwarnings("error")
def test_a_coroutine_that_an_observer_gives_is_closed_and_logged(server, call, caplog):
    server.answer("*", 503, OK)
    assert call(server.url, on_retry=lambda _: noted(), on_end=lambda _: noted()) == {"ok": True}
    assert sum("coroutine" in record.message for record in caplog.records) == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("headers", [noted, functools.partial(noted)], ids=["async def", "partial"])
def test_call_refuses_headers_that_must_be_awaited(server, headers):
    server.answer("*", OK)
    assert refused(lambda: blocking(server.url, headers=headers), "needs acall").field == "headers"
    assert server.requests == []
    assert awaited(server.url, headers=headers) == {"ok": True}


@pytest.mark.filterwarnings("error")
def test_call_refuses_a_sleep_that_gives_a_coroutine(server):
    server.answer("*", 503, OK)
    assert refused(lambda: blocking(server.url, sleep=lambda _: noted()), "needs acall").field == "sleep"


# ---- classify ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5, 5.0, "5", b"5"])
def test_classify_reads_a_header_value_that_is_a_number_as_its_text(value):
    failure = steadycall.classify(status=429, headers={"Retry-After": value})
    assert failure is not None
    assert failure.hint == steadycall.Hint(seconds=5.0, source="Retry-After")


@pytest.mark.parametrize(
    "body", [b"{}", "{}", bytearray(b"{}"), memoryview(b"{}")], ids=lambda body: type(body).__name__
)
def test_classify_takes_a_body_as_text_or_bytes(body):
    assert steadycall.classify(status=200, body=body) is None


WRONG = {
    "status": ["429", 99, 600, 429.0, True, None, 10**400],
    "headers": [3, "retry-after: 5", [1], [("a",)], {3: "x"}],
    'headers["x"]': [{"x": None}, {"x": True}, {"x": []}],
    "body": [3, None, [123, 125], {}],
    "url": [3, b"http://x/", object()],
    "now": ["x", True, math.nan, math.inf, 10**400, timedelta(1), mock.MagicMock()],
    "dialect": ["nope", 3, None, ""],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]], ids=repr)
def test_classify_names_each_parameter_that_makes_no_sense(field, value):
    wrong = refused(lambda: steadycall.classify(**({"status": 429} | {field.split("[")[0]: value})), "must be")
    assert wrong.field == field
    assert wrong.allowed
