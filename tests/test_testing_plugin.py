"""The pytest plugin: its fixtures, and how little it costs a run that does not use them."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

# Installed, the plugin comes by its entry point, and naming it as well would register it twice.
INSTALLED = bool(entry_points(group="pytest11", name="steadycall"))
BY_NAME = [] if INSTALLED else ["-p", "steadycall.testing.plugin"]


def passes(pytester: pytest.Pytester, code: str, count: int = 1) -> None:
    pytester.makepyfile(code)
    pytester.runpytest_inprocess(*BY_NAME, "-p", "no:cacheprovider").assert_outcomes(passed=count)


def test_fake_clock_is_a_new_clock_at_zero_for_each_test(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import pytest
        from steadycall.testing import FakeClock

        @pytest.mark.parametrize("run", [1, 2])
        def test_clock(fake_clock, run):
            assert isinstance(fake_clock, FakeClock)
            assert fake_clock.now() == 0.0
            fake_clock.sleep(5)
        """,
        count=2,
    )


def test_fake_sleep_takes_the_place_of_the_default_sleep_and_gives_it_back(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        from steadycall import _sleep

        def test_replaced(fake_sleep):
            assert _sleep.replacement  # true as well as set, while the list is still empty
            assert _sleep.replacement(1.5) is None
            _sleep.replacement(0)
            assert fake_sleep == [1.5, 0.0] == fake_sleep.waits

        def test_given_back():
            assert _sleep.replacement is None
        """,
        count=2,
    )


def test_fake_sleep_gives_back_a_replacement_that_was_there_before_it(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import pytest
        from steadycall import _sleep

        outer = []

        @pytest.fixture
        def replaced():
            _sleep.replacement = outer.append
            yield
            assert _sleep.replacement == outer.append
            _sleep.replacement = None

        def test_inner(replaced, fake_sleep):
            _sleep.replacement(1.0)
            assert (outer, fake_sleep) == ([], [1.0])
        """,
    )


def test_llm_server_runs_during_the_test_and_not_after_it(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import threading
        import urllib.request
        from steadycall.testing import Answer

        def test_runs(llm_server):
            llm_server.answer("/x", Answer(json=1))
            with urllib.request.urlopen(llm_server.url_for("/x")) as reply:
                assert reply.read() == b"1"

        def test_is_closed():
            assert not [t for t in threading.enumerate() if t.name.startswith("FakeServer")]
        """,
        count=2,
    )


def test_the_fixtures_are_listed_with_what_they_are_for(pytester: pytest.Pytester) -> None:
    listed = pytester.runpytest_inprocess(*BY_NAME, "-p", "no:cacheprovider", "--fixtures").stdout.str()
    for name in ("fake_clock", "fake_sleep", "llm_server"):
        assert f"{name} -- " in listed


@pytest.mark.slow
def test_loading_the_plugin_loads_neither_clock_nor_server() -> None:
    script = (
        "import sys, steadycall.testing.plugin; print([m for m in sys.modules if m.startswith('steadycall.testing')])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == "['steadycall.testing', 'steadycall.testing.plugin']"


def test_every_public_name_of_the_kit_can_be_imported_and_is_in_sorted_order() -> None:
    import steadycall.testing as kit

    assert kit.__all__ == sorted(kit.__all__)
    assert all(getattr(kit, name) for name in kit.__all__)
    assert set(kit.__all__) <= set(dir(kit))
    with pytest.raises(AttributeError, match="no_such_name"):
        kit.no_such_name  # noqa: B018  # reading it is the point
