"""The kit together with the call: tests as a user would paste them, each in both modes."""

import asyncio
import functools
import re
import time
import urllib.error
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import steadycall
from steadycall.testing import Answer, FakeClock, FakeServer, FakeSleep, answers

pytest_plugins = ["pytester"]

TESTING_PAGE = Path(__file__).parent.parent / "docs" / "testing.md"
# Installed, the plugin comes by its entry point, and naming it as well would register it twice.
BY_NAME = [] if entry_points(group="pytest11", name="steadycall") else ["-p", "steadycall.testing.plugin"]

Call = Callable[..., Any]
PATH = answers.openai.path
PAYLOAD = {"model": "gpt-test", "messages": [{"role": "user", "content": "Hello?"}]}


def blocking(url: str, **how: Any) -> Any:
    return steadycall.call(url, PAYLOAD, **how)


def awaited(url: str, **how: Any) -> Any:
    return asyncio.run(steadycall.acall(url, PAYLOAD, **how))


# Bound once, when this module is imported: fake_sleep has to reach them all the same.
blocking_since_import = functools.partial(steadycall.call, payload=PAYLOAD, tries=3)
awaitable_since_import = functools.partial(steadycall.acall, payload=PAYLOAD, tries=3)


@pytest.fixture(params=[blocking, awaited])
def ask(request: pytest.FixtureRequest) -> Call:
    call: Call = request.param
    return call


def test_a_busy_provider_is_asked_again_after_jittered_waits(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep
) -> None:
    llm_server.answer(PATH, answers.openai.overloaded(), answers.openai.overloaded(), answers.openai.ok("Hi."))
    answer = ask(llm_server.url_for(PATH))
    assert answer["choices"][0]["message"]["content"] == "Hi."
    first, second = fake_sleep
    assert 0 <= first <= 1
    assert 0 <= second <= 2
    assert [request.json() for request in llm_server.requests] == [PAYLOAD] * 3


@pytest.mark.parametrize(
    "limited",
    [
        answers.gemini.rate_limited(retry_delay="2s"),
        answers.openai.rate_limited(retry_after=2),
        answers.anthropic.rate_limited(retry_after=2),
    ],
    ids=["gemini", "openai", "anthropic"],
)
def test_a_rate_limit_is_waited_for_as_long_as_the_server_asked(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep, limited: Answer
) -> None:
    llm_server.answer("*", limited, Answer(json={}))
    ask(llm_server.url_for(PATH))
    assert fake_sleep == [2.0]


def test_a_wait_longer_than_max_wait_ends_the_call_at_once(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep
) -> None:
    llm_server.answer("*", answers.gemini.rate_limited(retry_delay="2970.938289688s"))
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(llm_server.url_for(answers.gemini.path))
    assert caught.value.code == 429
    assert isinstance(caught.value, steadycall.HTTPStatusError)
    assert caught.value.retry_after == pytest.approx(2970.938289688)
    assert (len(llm_server.requests), fake_sleep) == (1, [])


@pytest.mark.parametrize(
    "hopeless",
    [
        answers.gemini.daily_quota(retry_delay="20s"),
        answers.gemini.bad_request(),
        answers.gemini.bad_key(),
        answers.openai.insufficient_quota(),
        answers.openai.request_too_large(),
        answers.openai.bad_request(),
        answers.openai.bad_key(),
        answers.anthropic.spend_limit(),
        answers.anthropic.no_credit(),
        answers.anthropic.bad_request(),
        answers.anthropic.bad_key(),
    ],
    ids=lambda answer: str(answer.json["error"].get("status") or answer.json["error"].get("type")),
)
def test_what_no_wait_can_fix_is_asked_once(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep, hopeless: Answer
) -> None:
    llm_server.answer("*", hopeless)
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(llm_server.url_for(PATH))
    assert caught.value.code == hopeless.status
    assert (len(llm_server.requests), fake_sleep) == (1, [])


@pytest.mark.parametrize(
    "passing",
    [
        answers.gemini.rate_limited(retry_delay=None),
        answers.gemini.server_error(),
        answers.gemini.overloaded(),
        answers.gemini.deadline_exceeded(),
        answers.openai.rate_limited(),
        answers.openai.server_error(),
        answers.openai.overloaded(),
        answers.anthropic.rate_limited(),
        answers.anthropic.server_error(),
        answers.anthropic.overloaded(),
        Answer(json={}, reset="body"),
        Answer(json={}, truncate=1),
    ],
    ids=repr,
)
def test_what_passes_by_itself_is_asked_again(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep, passing: Answer
) -> None:
    llm_server.answer("*", passing, Answer(json={"ok": True}))
    assert ask(llm_server.url_for(PATH)) == {"ok": True}
    assert len(fake_sleep) == 1


def test_a_provider_that_never_recovers_is_given_up_after_the_last_try(
    ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep
) -> None:
    llm_server.answer("*", answers.openai.overloaded())
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(llm_server.url_for(PATH), tries=3)
    assert caught.value.code == 503
    assert (len(llm_server.requests), len(fake_sleep)) == (3, 2)


def test_a_list_takes_the_waits_in_place_of_sleep(ask: Call, llm_server: FakeServer) -> None:
    llm_server.answer("*", 503, 503, Answer(json={}))
    waits: list[float] = []
    ask(llm_server.url_for(PATH), sleep=waits.append)
    assert len(waits) == 2


def test_a_fake_sleep_given_as_sleep_is_used_though_it_is_an_empty_list(ask: Call, llm_server: FakeServer) -> None:
    llm_server.answer("*", answers.gemini.rate_limited(retry_delay="1s"), Answer(json={}))
    waits = FakeSleep()
    ask(llm_server.url_for(PATH), sleep=waits)
    assert waits == [1.0]


def test_an_injected_sleep_goes_before_the_fixture(ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep) -> None:
    llm_server.answer("*", 503, Answer(json={}))
    waits: list[float] = []
    ask(llm_server.url_for(PATH), sleep=waits.append)
    assert (len(waits), fake_sleep) == (1, [])


def test_fake_sleep_reaches_what_was_bound_at_import(llm_server: FakeServer, fake_sleep: FakeSleep) -> None:
    llm_server.answer("*", 503, Answer(json={}), 503, Answer(json={}))
    blocking_since_import(llm_server.url)
    asyncio.run(awaitable_since_import(llm_server.url))
    assert len(fake_sleep) == 2


def test_a_deadline_is_kept_without_a_real_second(llm_server: FakeServer, fake_clock: FakeClock) -> None:
    llm_server.answer("*", answers.gemini.rate_limited(retry_delay="4s"))
    start = time.monotonic()
    with pytest.raises(steadycall.DeadlineExceeded) as caught:
        blocking(llm_server.url, deadline=10, clock=fake_clock, sleep=fake_clock.sleep)
    # Waits end at 4 and at 8; a third would end at 12, after the deadline, so the call ends at 8 and not at 10.
    assert fake_clock.sleeps == [4.0, 4.0]
    assert fake_clock.now() == 8.0
    assert caught.value.stage == "retry_delay"
    assert len(llm_server.requests) == 3
    assert time.monotonic() - start < 5


def test_a_coroutine_keeps_the_deadline_of_a_fake_clock_too(llm_server: FakeServer, fake_clock: FakeClock) -> None:
    llm_server.answer("*", answers.gemini.rate_limited(retry_delay="4s"))
    with pytest.raises(steadycall.DeadlineExceeded):
        awaited(llm_server.url, deadline=10, clock=fake_clock, sleep=fake_clock.asleep)
    assert fake_clock.sleeps == [4.0, 4.0]


def test_time_that_passes_in_the_server_counts_against_the_deadline(
    ask: Call, llm_server: FakeServer, fake_clock: FakeClock
) -> None:
    def slow(request: object) -> Answer:
        fake_clock.advance(7)
        return answers.openai.overloaded()

    llm_server.answer("*", slow)
    with pytest.raises(steadycall.DeadlineExceeded):
        ask(llm_server.url, deadline=6, clock=fake_clock, sleep=[].append)
    assert len(llm_server.requests) == 1


def test_a_deadline_is_kept_with_a_fake_sleep_alone(ask: Call, llm_server: FakeServer, fake_sleep: FakeSleep) -> None:
    llm_server.answer("*", answers.gemini.rate_limited(retry_delay="40s"))
    with pytest.raises(steadycall.DeadlineExceeded):
        ask(llm_server.url, deadline=100)
    assert fake_sleep == [40.0, 40.0]


def test_a_cancelled_call_closes_its_connection(llm_server: FakeServer) -> None:
    llm_server.answer("*", Answer(never=True))

    async def main() -> None:
        task = asyncio.create_task(steadycall.acall(llm_server.url, PAYLOAD))
        await llm_server.await_for(lambda server: server.in_flight == 1)
        task.cancel()
        await llm_server.await_for(lambda server: server.aborted == 1)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_every_sample_of_the_testing_page_passes_when_pasted(pytester: pytest.Pytester) -> None:
    samples = re.findall(r"^```python\n(.*?)^```$", TESTING_PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(samples) == 6
    for number, sample in enumerate(samples):
        pytester.makepyfile(**{f"test_sample_{number}": sample})
    ran = pytester.runpytest_inprocess(*BY_NAME, "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=len(samples))
