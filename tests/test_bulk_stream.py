"""``bulk`` for rows of a program's own: taken as there is room, given back as they come or in order."""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall import BulkResult, ConfigError, FailureKind, Policy
from steadycall.testing import Answer, FakeServer, answers
from steadycall.testing.message import Request

PATH = "/v1/chat/completions"
OK = answers.openai.ok("Hi.")
QUICK = Policy(tries=3, base=0.002, cap=0.01)


def number(request: Request) -> int:
    found = re.search(rb'"n": ?(\d+)', request.body)
    assert found is not None
    return int(found[1])


def echo(request: Request) -> Answer:
    return Answer(json={"n": number(request)})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        server.script(PATH, [echo])
        yield server


Collect = Callable[..., list[BulkResult]]


@pytest.fixture(params=["sync", "async"])
def collect(request: pytest.FixtureRequest, server: FakeServer) -> Collect:
    """All results of rows, in both modes."""

    def sync(rows: Any, **settings: Any) -> list[BulkResult]:
        return list(steadycall.bulk(rows, **settings))

    def in_a_loop(rows: Any, **settings: Any) -> list[BulkResult]:
        async def main() -> list[BulkResult]:
            return [result async for result in steadycall.abulk(rows, **settings)]

        return asyncio.run(main())

    front = sync if request.param == "sync" else in_a_loop

    def run(rows: Any, **settings: Any) -> list[BulkResult]:
        whereto = {} if "base_url" in settings else {"url": server.url_for(PATH)}
        return front(rows, **{**whereto, "policy": QUICK, **settings})

    return run


def test_every_row_has_its_result(collect: Collect) -> None:
    results = collect({"n": n} for n in range(100))
    assert sorted(result.index for result in results) == list(range(100))
    assert all(result.answer == {"n": result.index} and result.ok for result in results)
    assert {result.custom_id for result in results} == {f"row-{n}" for n in range(1, 101)}
    assert {(result.status, result.failure, result.why, result.requests) for result in results} == {
        (200, None, None, 1)
    }


def test_a_result_tells_its_tokens(server: FakeServer, collect: Collect) -> None:
    server.answer(PATH, OK)
    (result,) = collect([{"n": 1}])
    assert result.usage is not None
    assert result.usage["total_tokens"] == 12


def test_results_come_in_order_when_asked_to(server: FakeServer, collect: Collect) -> None:
    server.script(PATH, [lambda request: echo(request).replace(delay=0.05 if number(request) % 7 == 0 else 0)])
    results = collect(({"n": n} for n in range(50)), ordered=True, concurrency=5)
    assert [result.answer["n"] for result in results] == list(range(50))


def test_results_come_as_they_are_there_otherwise(server: FakeServer, collect: Collect) -> None:
    server.script(PATH, [lambda request: echo(request).replace(delay=0.2 if number(request) == 1 else 0)])
    results = collect([{"n": n} for n in range(9)], concurrency=4)
    assert results[-1].index == 1


def test_a_row_that_fails_is_a_result(server: FakeServer, collect: Collect) -> None:
    bad = answers.openai.bad_request()
    server.script(PATH, [lambda request: bad if number(request) == 1 else echo(request)])
    good, failed = sorted(collect([{"n": 0}, {"n": 1}]), key=lambda result: result.index)
    assert good.ok
    assert (failed.ok, failed.answer, failed.status, failed.requests) == (False, None, 400, 1)
    assert failed.failure is not None
    assert failed.failure.kind == FailureKind.PERMANENT
    assert failed.why == failed.failure.reason


def test_nobody_waits_longer_than_max_wait(server: FakeServer, collect: Collect) -> None:
    server.answer(PATH, answers.openai.rate_limited(12))
    began = time.monotonic()
    results = collect([{"n": n} for n in range(6)], policy=Policy(max_wait=2), concurrency=2)
    assert time.monotonic() - began < 2
    assert len(results) == 6
    assert not any(result.ok for result in results)


def test_rows_in_the_batch_format_keep_their_ids(server: FakeServer, collect: Collect) -> None:
    rows = [
        {"custom_id": "a", "method": "POST", "url": PATH, "body": {"n": 1}},
        json.dumps({"custom_id": "b", "url": PATH, "body": {"n": 2}}),
        {"custom_id": "a", "url": PATH, "body": {"n": 3}},
        {"url": PATH, "body": {"n": 4}},
        {"custom_id": "c", "url": PATH},
        {"custom_id": "d", "url": PATH, "body": {"n": 5, "stream": True}},
        "nonsense",
        7,
    ]
    results = sorted(collect(rows, base_url=server.url), key=lambda result: result.index)
    assert [(result.custom_id, result.ok) for result in results[:2]] == [("a", True), ("b", True)]
    assert [result.why for result in results[2:]] == [
        "An earlier line has the same custom_id.",
        "The line has no custom_id, or one that is no text.",
        "The line has no body.",
        "The body asks for a stream, which does not fit into a line.",
        "The line is not JSON.",
        "The line is no JSON object.",
    ]
    assert len(server.requests) == 2


def test_a_file_is_read_where_there_is_no_output(tmp_path: Path, collect: Collect) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n\n{"n": 2}\n')
    assert [result.answer for result in collect(path, ordered=True)] == [{"n": 1}, {"n": 2}]


def test_nothing_in_is_nothing_out(collect: Collect) -> None:
    assert collect([]) == []


def test_no_more_rows_are_taken_than_there_is_room_for(server: FakeServer) -> None:
    taken = itertools.count()
    endless = ({"n": next(taken)} for _ in itertools.count())
    with steadycall.bulk(endless, url=server.url_for(PATH), concurrency=2, ordered=True) as results:
        assert [next(results).answer["n"] for _ in range(20)] == list(range(20))
        assert next(taken) <= 20 + 4 * 2
    assert server.wait_for(lambda server: server.in_flight == 0)


def test_what_the_rows_raise_passes(collect: Collect) -> None:
    def rows() -> Iterator[Any]:
        yield {"n": 1}
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        collect(rows())


def test_answers_paid_for_come_before_what_the_rows_raise(server: FakeServer) -> None:
    def rows() -> Iterator[Any]:
        yield from ({"n": n} for n in range(7))
        raise LookupError("no more")

    server.script(PATH, [lambda request: echo(request).replace(delay=0.05)])
    results = steadycall.bulk(rows(), url=server.url_for(PATH), ordered=True)
    assert [next(results).answer["n"] for _ in range(7)] == list(range(7))
    with pytest.raises(LookupError, match="no more"):
        next(results)


def test_a_row_that_cannot_be_json_is_a_failed_result(collect: Collect, server: FakeServer) -> None:
    results = collect([{"n": 0}, {"n": object()}, {"n": 2}], ordered=True)
    assert [result.why for result in results] == [None, "The line is not JSON.", None]
    rows = [{"custom_id": "a", "url": PATH, "body": body} for body in ({"n": object()}, [1], "text")]
    whys = [result.why for result in collect(rows[:1], base_url=server.url)]
    whys += [result.why for row in rows[1:] for result in collect([row], base_url=server.url)]
    assert whys == ["The line is not JSON.", "The body is no JSON object.", "The body is no JSON object."]


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        (3, {}, "rows"),
        ({"n": 1}, {}, "rows"),
        ([], {"failures": "x"}, "failures"),
        ([], {"retry_failed": True}, "retry_failed"),
        ([], {"on_progress": print}, "on_progress"),
        ([], {"ordered": 3}, "ordered"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(collect: Collect, rows: Any, settings: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        collect(rows, **settings)


def test_rows_may_come_from_an_async_iterable(server: FakeServer) -> None:
    async def rows() -> AsyncIterator[Any]:
        for n in range(30):
            await asyncio.sleep(0)
            yield {"n": n}

    async def main() -> list[int]:
        results = steadycall.abulk(rows(), url=server.url_for(PATH), ordered=True)
        return [result.answer["n"] async for result in results]

    assert asyncio.run(main()) == list(range(30))


def test_leaving_an_async_run_gives_up_what_is_in_flight(server: FakeServer) -> None:
    server.answer(PATH, Answer(never=True))

    async def main() -> None:
        results = steadycall.abulk(({"n": n} for n in itertools.count()), url=server.url_for(PATH))
        with pytest.raises(TimeoutError):
            async with results, asyncio.timeout(0.3):
                await anext(results)
        assert await server.await_for(lambda server: server.in_flight == 0)

    asyncio.run(main())


def test_a_result_does_not_wait_for_the_next_row(server: FakeServer) -> None:
    rows: queue.SimpleQueue[Any] = queue.SimpleQueue()
    rows.put({"n": 0})
    with steadycall.bulk(iter(rows.get, None), url=server.url_for(PATH)) as results:
        for n in range(5):
            assert next(results).answer == {"n": n}
            rows.put({"n": n + 1} if n < 4 else None)
        assert list(results) == []

    async def feed(rows: asyncio.Queue[Any]) -> AsyncIterator[Any]:
        while (row := await rows.get()) is not None:
            yield row

    async def main() -> None:
        rows: asyncio.Queue[Any] = asyncio.Queue()
        rows.put_nowait({"n": 0})
        async with steadycall.abulk(feed(rows), url=server.url_for(PATH)) as results:
            for n in range(5):
                assert (await asyncio.wait_for(anext(results), 5)).answer == {"n": n}
                rows.put_nowait({"n": n + 1} if n < 4 else None)
            assert [result async for result in results] == []

    asyncio.run(main())


def test_a_dropped_run_gives_up_what_is_in_flight(server: FakeServer) -> None:
    server.script(PATH, [lambda request: echo(request) if number(request) == 0 else Answer(never=True)])
    results = steadycall.bulk(({"n": n} for n in range(3)), url=server.url_for(PATH))
    next(results)
    assert server.wait_for(lambda server: server.in_flight == 2)
    del results
    assert server.wait_for(lambda server: server.in_flight == 0)
