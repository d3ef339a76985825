"""Nothing that a caller's functions or a server may do comes out as a panic.

A panic would be a ``PanicException``, which is no ``Exception`` and which no ``except`` of a caller expects, and it
writes "panicked at" to standard error.
There is deliberately no switch in the package to make one happen: these are the values that break arithmetic,
slicing and parsing.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer

NUMBERS = [0, -1, 1e-320, 1e18, 1.7e308, math.inf, -math.inf, math.nan, 2**63, 2**64, 2**4000, -(2**4000)]


@pytest.fixture(autouse=True)
def no_panic(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert "panicked at" not in capfd.readouterr().err


@pytest.fixture
def busy_twice() -> Iterator[FakeServer]:
    steps = itertools.cycle([Answer(503), Answer(503), Answer(json=1)])
    with FakeServer(lambda request: next(steps)) as server:
        yield server


def ends(url: str, payload: object = None, **options: Any) -> Exception | None:
    """What the call raised. Our own fault is never among it, and a panic is not let through as anything else."""
    try:
        steadycall.call(url, payload, **({"sleep": lambda _: None} | options))
    except Exception as error:
        caught = error
    else:
        return None
    assert type(caught) is not steadycall.Error, caught
    return caught


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_in_any_option_is_used_or_refused(busy_twice: FakeServer, number: float) -> None:
    names = ("tries", "base", "cap", "max_wait", "timeout", "attempt_timeout", "deadline", "max_response_bytes")
    for name in names:
        error = ends(busy_twice.url, **{name: number})
        assert isinstance(error, steadycall.ConfigError | steadycall.CallError | None), (name, error)


@pytest.mark.parametrize("then", [*NUMBERS, "soon", None])
def test_a_clock_may_say_anything(busy_twice: FakeServer, then: object) -> None:
    readings = itertools.chain([0.0], itertools.cycle([then, 0.0]))
    error = ends(busy_twice.url, clock=lambda: next(readings), deadline=5)
    assert isinstance(error, steadycall.CallError | steadycall.ConfigError | None), error


@pytest.mark.parametrize("draw", [*NUMBERS, "much", None])
def test_a_generator_may_draw_anything(busy_twice: FakeServer, draw: Any) -> None:
    class Loaded(random.Random):
        def random(self) -> float:
            return draw  # type: ignore[no-any-return]

    error = ends(busy_twice.url, rng=Loaded())
    assert (error is None) if draw in (0, 1e-320) else isinstance(error, steadycall.ConfigError), error


@pytest.mark.parametrize("name", ["clock", "headers", "on_retry", "on_end", "sleep"])
@pytest.mark.parametrize("error", [KeyError("ours"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_callback_that_raises_does_no_more_than_raise(
    busy_twice: FakeServer, name: str, error: BaseException
) -> None:
    def raises(*_: object) -> Any:
        raise error

    caught: BaseException | None = None
    try:
        steadycall.call(busy_twice.url, {}, **({"sleep": lambda _: None} | {name: raises}))
    except (KeyError, KeyboardInterrupt, SystemExit) as raised:
        caught = raised
    # An observer's error may be logged; any other is the caller's.
    assert caught is error or (caught is None and name in ("on_retry", "on_end"))
    while ends(busy_twice.url) is not None:
        pass
    assert ends(busy_twice.url) is None


HINTS = ["", "0", "-1", "1e400", "1e-400", "9" * 400, "nan", "inf", "18446744073709551616", "1s", "," * 99, "\xff\xfe"]
DATES = [f"Fri, 31 Dec {year} 23:59:59 GMT" for year in ("0000", "1969", "9999", "99999")]


@pytest.mark.parametrize("value", HINTS + DATES)
def test_a_hint_may_be_spelled_in_any_way(value: str) -> None:
    names = ["retry-after", "retry-after-ms", "x-ratelimit-reset-requests", "x-ratelimit-reset", "x-should-retry"]
    names += ["anthropic-ratelimit-requests-reset", "ratelimit-reset", "ratelimit"]
    headers = [(name, value.encode().decode("latin-1")) for name in names]
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": value}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": value, "details": [detail, value, None]}}
    with FakeServer(Answer(429, headers=headers, json=body), Answer(json=1)) as server:
        error = ends(server.url)
    assert isinstance(error, steadycall.HTTPStatusError | None), error


BODIES = [
    *(
        b"",
        b"\x00",
        b"<html>" * 9,
        b'"\\ud800"',
        b"\xef\xbb\xbf1",
        b"\xff\xfe[\x001\x00]\x00",
        b"1e99999",
        b"-" + b"9" * 5000,
    ),
    *(b"[" * 200_000, b'{"a":' * 100_000, b'{"error":' * 500 + b"1" + b"}" * 500, b'{"error":{"message":"\xf0\x9f"}}'),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("status", [200, 204, 299, 301, 400, 429, 503, 599, 999])
def test_an_answer_may_say_anything(body: bytes, status: int) -> None:
    with FakeServer(Answer(status, body=body)) as server:
        error = ends(server.url, tries=2)
    assert isinstance(error, steadycall.CallError | ValueError | None), error


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_are_no_http_are_an_error_that_says_so(seed: int) -> None:
    dice = random.Random(seed)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\ncontent-encoding: gzip\r\n\r\n"

    def garbage(_: object) -> Answer:
        kept = head[: dice.randrange(len(head) + 1)]
        return Answer(garbage=kept + dice.randbytes(dice.randrange(60)))

    with FakeServer(garbage) as server:
        for _ in range(25):
            error = ends(server.url, tries=1, timeout=2)
            assert isinstance(error, steadycall.CallError), error
