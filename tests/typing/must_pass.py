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


def policies() -> None:
    def gate(failure: steadycall.Failure, error: BaseException) -> bool:
        return failure.status != 409

    policy = steadycall.Policy(
        tries=3,
        deadline=timedelta(minutes=1),
        backoff={steadycall.FailureKind.CALL: steadycall.Backoff.exponential(0.5, 1.0, jitter="equal")},
        retry_on=(OSError, KeyError),
        retry_if=gate,
        retry_status=[429],
    )
    steadycall.Policy(backoff={"call": steadycall.Backoff.fixed(2)}, retry_on=OSError)
    assert_type(policy.replace(tries=4, max_requests=6), steadycall.Policy)
    assert_type(steadycall.Policy.from_mapping({"tries": 3}), steadycall.Policy)
    assert_type(policy.worst_case(chains=2).seconds, float | None)
    assert_type(policy.max_attempt_timeout(within=timedelta(minutes=2), chains=2), float)
    policy.require_within(120)
    assert_type(steadycall.layers(transport=3, queue=2).max_requests, int)


def ask(question: str, *, model: str = "m") -> str:
    return question + model


async def aask(question: str, *, model: str = "m") -> str:
    return question + model


async def wrapped() -> None:
    policy = steadycall.Policy(tries=2)
    assert_type(policy.call(ask, "how", model="n"), str)
    assert_type(await policy.acall(aask, "how", model="n"), str)
    bound = policy.bind(validate=lambda answer: answer != "", sleep=[0.0].append, rng=1)
    assert_type(bound.call(ask, "how"), str)
    retried = steadycall.retry(policy, deadline=4, on_end=print)(ask)
    assert_type(retried("how", model="n"), str)
    assert_type(retried.policy, steadycall.Policy)
    assert_type(retried.retry_with(tries=3)("how"), str)
    assert_type(await steadycall.retry(aask)("how"), str)
    assert_type(await Service().aask("how"), str)
    assert_type(Service().ask("how"), str)
    assert_type(Service.ask.retry_with(tries=1)(Service(), "how"), str)
    for attempt in steadycall.attempts(policy, deadline=4):
        with attempt:
            assert_type(attempt.timeout, float | None)
            attempt.fail("validation")
    async for attempt in steadycall.attempts(tries=3):
        async with attempt:
            assert_type(steadycall.current_attempt().number, int)


class Service:
    @steadycall.retry(tries=3)
    def ask(self, question: str) -> str:
        return question

    @steadycall.retry
    async def aask(self, question: str) -> str:
        return question


async def scopes() -> None:
    with steadycall.scope(deadline=4.0, requests=6) as account:
        assert_type(account.remaining(), float | None)
        assert_type(account.left(), int | None)
        assert_type(account.carry(ask)("how", model="n"), str)
    async with steadycall.scope(deadline=steadycall.Deadline.after(4)):
        pass
    assert_type(steadycall.Deadline.after(4).to_header("X-Server-Timeout"), dict[str, str])
    assert_type(steadycall.Deadline.from_header({"x": "1"}), steadycall.Deadline | None)


def streams(stream: steadycall.Stream) -> None:
    steadycall.StreamTimeout(first_event=timedelta(minutes=2), idle=None, total=60)
    with stream as events:
        for event in events:
            assert_type(event, steadycall.StreamEvent)
            assert_type(event.text, str)
            assert_type(event.event, str | None)
            assert_type(event.json(), Any)
    assert_type(stream.collect().text, str)
    assert_type(stream.usage, dict[str, int] | None)
    assert_type(stream.attempts, tuple[steadycall.AttemptRecord, ...])


async def async_streams(stream: steadycall.AsyncStream) -> None:
    try:
        async with stream as events:
            async for event in events:
                assert_type(event.data, str)
        assert_type((await stream.collect()).event_count, int)
        await stream.aclose()
    except steadycall.StreamInterrupted as error:
        assert_type(error.partial, str)
        assert_type(error.events, tuple[steadycall.StreamEvent, ...])
        assert_type(error.run_id, str | None)


def client(seen: list[steadycall.Event]) -> None:
    limits = (steadycall.ConcurrencyLimit(8, queue=100), steadycall.RateLimit(60, tokens_per_minute=10_000))
    with steadycall.Client(
        "https://x/v1",
        policy=steadycall.Policy(tries=3),
        concurrency=limits[0],
        rate=limits[1],
        token_budget=steadycall.TokenBudget(10_000, on_spent="wait"),
        breaker=steadycall.CircuitBreaker(failure_ratio=0.5),
        retry_budget=steadycall.RetryBudget(ratio=0.1),
        headers=lambda: {"authorization": "k"},
        fallback=[steadycall.Route("https://y", transform=dict)],
        on_event=seen.append,
    ) as one:
        reply = one.call("/chat", {"model": "m"}, deadline=timedelta(seconds=4), tokens=10, partition="tenant")
        assert_type(reply, steadycall.Reply)
        assert_type(reply.status, int)
        assert_type(reply.attempts, tuple[steadycall.AttemptRecord, ...])
        assert_type(reply.total_usage, dict[str, int] | None)
        assert_type(reply.route, steadycall.Route)
        assert_type(one.get("/models").text, str)
        assert_type(one.with_options(timeout=3), steadycall.Client)
        assert_type(one.circuit("m").state, str)
        assert_type(one.in_flight, int | None)
    steadycall.Transport(one)


async def async_client() -> None:
    async with steadycall.AsyncClient("https://x/v1", concurrency=8) as one:
        assert_type(await one.call("/chat", {"model": "m"}, validate=lambda answer: None), steadycall.Reply)
        assert_type(await one.request("DELETE", "/files/f"), steadycall.Reply)
        async with one.stream("/chat", {}, timeout=steadycall.StreamTimeout(idle=5)) as events:
            assert_type(events, steadycall.AsyncStream)
    steadycall.AsyncTransport(one)


async def rows() -> None:
    summary = steadycall.bulk("rows.jsonl", output="answers.jsonl", base_url="https://x/v1", concurrency=4)
    assert_type(summary, steadycall.BulkSummary)
    assert_type(summary.complete, bool)
    for result in steadycall.bulk([{"model": "m"}], url="https://x", ordered=True, timeout=5):
        assert_type(result, steadycall.BulkResult)
    assert_type(await steadycall.abulk("rows.jsonl", output="answers.jsonl", url="https://x"), steadycall.BulkSummary)
    async for result in steadycall.abulk([{"model": "m"}], url="https://x"):
        assert_type(result.ok, bool)
    with steadycall.BulkRun("rows.jsonl", output="answers.jsonl", url="https://x") as run:
        assert_type(run.plan(), steadycall.BulkPlan)
        assert_type(run.progress(), steadycall.BulkProgress)
        assert_type(run.wait(1), steadycall.BulkSummary | None)


async def units() -> None:
    seen: list[steadycall.UnitRecord] = []
    group = steadycall.UnitGroup(
        steadycall.Policy(tries=3), timedelta(hours=1), 600, 6, stop_on={steadycall.FailureKind.PERMANENT, "tries"}
    )
    steadycall.UnitGroup(
        steadycall.Policy().bind(rng=1), steadycall.Deadline.after(60), 5, gone=(KeyError,), on_unit=seen.append
    )
    result = group.run(call=lambda: ask("how"), save=print, validate=str.upper, alive=lambda: True, name="card 7")
    assert_type(result, steadycall.UnitResult)
    assert_type(result.outcome, steadycall.UnitOutcome)
    assert_type(result.usage, dict[str, int] | None)
    assert_type(result.record.kind, steadycall.FailureKind | None)
    assert_type(await group.arun(call=lambda: aask("how"), save=aask), steadycall.UnitResult)
    group.stop()
    assert_type(group.stop_cause, str | None)
    assert_type(group.remaining(), float)


def kit(llm_server: FakeServer, fake_sleep: FakeSleep, fake_clock: FakeClock) -> None:
    llm_server.answer("/v1", answers.openai.overloaded(), 503, Answer(json={"ok": True}), lambda request: 200)
    assert_type(llm_server.url, str)
    assert_type(fake_clock.now(), float)
    operation = ScriptedOperation([TimeoutError(), "Hi."])
    operation("prompt")
