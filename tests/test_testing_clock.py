"""FakeClock: time that moves only when told to."""

import asyncio
import math
import threading

import pytest

from steadycall.testing import FakeClock, FakeSleep


def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(start=5)
    assert clock.now() == clock.now() == 5.0


def test_a_sleep_is_noted_and_moves_the_clock_by_what_was_asked() -> None:
    clock = FakeClock()
    clock.sleep(2)
    clock.sleep(0.5)
    assert clock.sleeps == [2.0, 0.5]
    assert clock.now() == 2.5


def test_a_coroutine_sleep_is_noted_in_the_same_list() -> None:
    clock = FakeClock()

    async def main() -> None:
        await clock.asleep(3.0)

    clock.sleep(1.0)
    asyncio.run(main())
    assert clock.sleeps == [1.0, 3.0]
    assert clock.now() == 4.0


def test_a_coroutine_sleep_gives_other_tasks_a_turn_even_in_the_place_of_asyncio_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(asyncio, "sleep", clock.asleep)
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async def main() -> None:
        task = asyncio.create_task(other())
        await asyncio.sleep(1.0)
        order.append("main")
        await task

    asyncio.run(main())
    assert order == ["other", "main"]


def test_advance_is_not_noted_as_a_sleep() -> None:
    clock = FakeClock()
    clock.advance(7.0)
    assert clock.now() == 7.0
    assert clock.sleeps == []


def test_a_clock_can_be_called_for_its_reading() -> None:
    clock = FakeClock(start=1.5)
    assert clock() == clock.now() == 1.5


def test_a_sleep_of_zero_is_noted() -> None:
    clock = FakeClock()
    clock.sleep(0.0)
    assert clock.sleeps == [0.0]


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, -math.inf])
def test_a_wait_no_real_clock_could_make_is_refused_and_changes_nothing(seconds: float) -> None:
    clock = FakeClock()
    for move in (clock.sleep, clock.advance, lambda d: asyncio.run(clock.asleep(d))):
        with pytest.raises(ValueError):
            move(seconds)
    assert clock.now() == 0.0
    assert clock.sleeps == []


def test_a_start_that_is_no_reading_is_refused() -> None:
    with pytest.raises(ValueError, match="start"):
        FakeClock(start=math.nan)


def test_no_sleep_is_lost_when_many_threads_sleep_at_once() -> None:
    clock = FakeClock()

    def work() -> None:
        for _ in range(500):
            clock.sleep(1.0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() == len(clock.sleeps) == 4000


def test_a_fake_sleep_is_the_list_of_its_waits() -> None:
    sleep = FakeSleep()
    sleep(1)
    sleep(0.25)
    assert sleep == [1.0, 0.25]
    assert sleep.waits == [1.0, 0.25]
    with pytest.raises(ValueError):
        sleep(-1)
