"""``Deadline.to_header`` and ``from_header``: a deadline that crosses a process boundary as seconds left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadycall import ConfigError, Deadline
from steadycall.testing import FakeClock


def test_a_deadline_travels_as_the_seconds_left():
    here, there = FakeClock(1000), FakeClock(5)
    deadline = Deadline.after(4, clock=here)
    here.advance(0.75)
    headers = deadline.to_header()
    assert headers == {"X-Deadline-Seconds": "3.250"}
    arrived = Deadline.from_header(headers, clock=there)
    assert arrived is not None
    assert arrived.remaining() == 3.25
    there.advance(3.25)
    assert arrived.remaining() == 0.0


def test_googles_header_is_whole_seconds_and_at_least_one():
    clock = FakeClock()
    deadline = Deadline.after(4.2, clock=clock)
    assert deadline.to_header("X-Server-Timeout") == {"X-Server-Timeout": "5"}
    clock.advance(99)
    assert deadline.to_header("X-Server-Timeout") == {"X-Server-Timeout": "1"}
    assert deadline.to_header() == {"X-Deadline-Seconds": "0.000"}


@pytest.mark.parametrize(
    "headers",
    ["2.5", {"x-deadline-seconds": "2.5"}, [("Host", "x"), ("X-DEADLINE-SECONDS", "2.5")]],
    ids=["value", "mapping", "pairs"],
)
def test_a_header_is_read_from_a_value_a_mapping_or_pairs(headers):
    deadline = Deadline.from_header(headers, clock=FakeClock())
    assert deadline is not None
    assert deadline.remaining() == 2.5


def test_a_request_without_the_header_brought_no_deadline():
    assert Deadline.from_header(None) is None
    assert Deadline.from_header({"host": "x"}) is None


@pytest.mark.parametrize("garbled", ["", "soon", "-1", "nan", "inf", "1e999"])
def test_a_garbled_header_is_refused_by_name(garbled):
    with pytest.raises(ConfigError) as caught:
        Deadline.from_header({"X-Deadline-Seconds": garbled})
    assert caught.value.field == "X-Deadline-Seconds"


@given(st.floats(0.001, 1e6))
def test_the_way_through_a_header_never_adds_time(seconds):
    deadline = Deadline.after(seconds, clock=FakeClock())
    arrived = Deadline.from_header(deadline.to_header(), clock=FakeClock())
    assert arrived is not None
    assert seconds - 0.001 - 1e-9 <= arrived.remaining() <= seconds
