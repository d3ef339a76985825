"""pytest fixtures: ``fake_clock``, ``fake_sleep`` and ``llm_server``.

pytest imports this module in every run, so it imports nothing but pytest; the rest waits until a fixture is asked for.
"""

from collections.abc import Iterator

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steadycall.testing import FakeClock, FakeServer, FakeSleep


@pytest.fixture
def fake_clock() -> "FakeClock":
    """A `FakeClock` at 0: give it as ``clock=``, and its ``sleep`` or ``asleep`` as ``sleep=``."""
    from steadycall.testing import FakeClock

    return FakeClock()


@pytest.fixture
def fake_sleep() -> "Iterator[FakeSleep]":
    """The list of waits steadycall would have slept, sync and async, wherever the caller gave no ``sleep`` of its own.

    It reaches every front of the process, functions decorated at import included, because all of them ask
    ``steadycall._sleep`` at each wait.
    """
    from steadycall import _sleep
    from steadycall.testing import FakeSleep

    before = _sleep.replacement
    sleep = FakeSleep()
    # The bound method, because an empty list is false and would read as "no replacement".
    _sleep.replacement = sleep.__call__
    yield sleep
    _sleep.replacement = before


@pytest.fixture
def llm_server() -> "Iterator[FakeServer]":
    """A running `FakeServer` without a script, closed after the test."""
    from steadycall.testing import FakeServer

    with FakeServer() as server:
        yield server
