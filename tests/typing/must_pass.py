"""What users write must pass a strict type checker; `test_typing.py` runs mypy over this file, nobody runs the file."""

import asyncio
import random
import urllib.error
from collections.abc import Mapping
from datetime import datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any, assert_type

import steadycall
from steadycall.testing import Answer, FakeClock, FakeServer, FakeSleep, ScriptedOperation, answers

URL = "https://llm.example/v1/chat/completions"


def calls() -> None:
    waits: list[float] = []
    assert_type(steadycall.call(URL, {"model": "m"}), Any)
    steadycall.call(URL, b"{}", tries=3, base=0.5, cap=10, max_wait=timedelta(minutes=1), sleep=waits.append)
    steadycall.call(URL, [1, None], headers={"Authorization": "Bearer x"}, timeout=10, attempt_timeout=20, deadline=60)
    steadycall.call(
        URL, {}, headers=[("X-Tag", "a"), ("X-Tag", b"b")], timeout=steadycall.Timeout(connect=2, read=None)
    )
    steadycall.call(URL, {}, deadline=steadycall.Deadline.after(timedelta(seconds=4)), idempotency_key="order-17")
    steadycall.call(URL, {}, retry_status={429, 503}, retry_transport=False, retry_maybe_processed=False)
    steadycall.call(URL, {}, rng=7)
    steadycall.call(URL, {}, rng=random.Random(7), proxy="http://localhost:3128", ca_bundle=Path("roots.pem"))
    steadycall.call(URL, {}, timeout=None, max_response_bytes=1_000_000)
    steadycall.call(URL, {}, timeout=steadycall.Timeout(5.0, read=timedelta(minutes=1), pool=None))


def observers(clock: FakeClock) -> None:
    def on_retry(record: steadycall.AttemptRecord) -> None:
        assert_type(record.number, int)
        assert_type(record.status, int | None)
        assert_type(record.wait, float | None)
        assert_type(record.kind, steadycall.FailureKind | None)

    def on_end(record: steadycall.CallRecord) -> None:
        assert_type(record.attempts, tuple[steadycall.AttemptRecord, ...])
        assert_type(record.usage, dict[str, int] | None)
        assert_type(record.stop_reason, steadycall.StopReason | None)

    def headers() -> Mapping[str, str]:
        return {"Authorization": "Bearer fresh"}

    steadycall.call(URL, {}, on_retry=on_retry, on_end=on_end, headers=headers, clock=clock, sleep=clock.sleep)
    steadycall.call(URL, {}, clock=lambda: 0.0)


def transports(record: list[steadycall.AttemptRecord]) -> None:
    steadycall.Transport()
    steadycall.Transport(steadycall.Policy(tries=3), hold_preamble=False, on_retry=record.append, rng=7)
    with steadycall.Transport(steadycall.Policy().bind(rng=7), proxy="http://localhost:3128") as transport:
        assert_type(transport, steadycall.Transport)
    steadycall.AsyncTransport(inner=object(), sleep=asyncio.sleep)

    class Client:
        pass

    assert_type(steadycall.wrap(Client(), steadycall.Policy(deadline=60), on_retry=record.append), Client)
    assert_type(steadycall.RetryStackingWarning("text"), steadycall.RetryStackingWarning)


async def awaited() -> None:
    async def headers() -> dict[str, str]:
        return {"Authorization": "Bearer fresh"}

    assert_type(await steadycall.acall(URL, {}, sleep=asyncio.sleep, headers=headers), Any)
    one, two = await asyncio.gather(steadycall.acall(URL, {}), steadycall.acall(URL, {}, sleep=[0.0].append))
    assert_type((one, two), tuple[Any, Any])


def errors() -> None:
    try:
        steadycall.call(URL, {})
    except steadycall.HTTPStatusError as error:
        assert_type(error.code, int)
        assert_type(error.headers, Message)
        assert_type(error.body, bytes)
        assert_type(error.retry_after, float | None)
        assert_type(error.retry_at, datetime | None)
        assert_type(error.attempts, tuple[steadycall.AttemptRecord, ...])
    except steadycall.AttemptTimeout as error:
        assert_type(error.phase, str)
    except steadycall.DeadlineExceeded as error:
        assert_type(error.stage, str)
    except steadycall.ResponseError as error:
        assert_type(error.body, bytes)
    except steadycall.CallError as error:
        assert_type(error.safe_message, str)
        assert_type(error.stop_reason, steadycall.StopReason | None)

    answered: type[urllib.error.HTTPError] = steadycall.HTTPStatusError
    transport: type[urllib.error.URLError] = steadycall.TransportError
    late: type[TimeoutError] = steadycall.DeadlineExceeded
    wrong: type[ValueError] = steadycall.ConfigError
    assert {answered, transport, late, wrong}


def judged() -> None:
    failure = steadycall.classify(status=429, headers={"Retry-After": "2"}, body=b"{}", url=URL)
    assert_type(failure, steadycall.Failure | None)
    steadycall.classify(status=429, headers={"Retry-After": 2}, body=bytearray(), now=0)
    if failure is not None:
        assert_type(failure.kind, steadycall.FailureKind)
        assert_type(failure.retryable, bool)
        if failure.hint is not None:
            assert_type(failure.hint.seconds, float)
            assert_type(failure.hint.source, str)


def judged_exceptions(error: Exception) -> None:
    assert_type(steadycall.classify_exception(error), steadycall.Failure)
    assert_type(steadycall.classify_exception(BaseException()).hint, steadycall.Hint | None)
    if isinstance(error, steadycall.CallError):
        assert_type(error.failure, steadycall.Failure | None)


def deadlines() -> None:
    deadline = steadycall.Deadline.after(4.0)
    assert_type(deadline.remaining(), float)
    assert_type(deadline.require(0.5), float)


def kit(llm_server: FakeServer, fake_sleep: FakeSleep, fake_clock: FakeClock) -> None:
    llm_server.answer("/v1", answers.openai.overloaded(), 503, Answer(json={"ok": True}), lambda request: 200)
    assert_type(llm_server.url, str)
    assert_type(fake_clock.now(), float)
    operation = ScriptedOperation([TimeoutError(), "Hi."])
    operation("prompt")
