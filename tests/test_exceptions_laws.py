"""The law of the walk: whatever way exceptions hang together, it ends, meets each once, and raises nothing."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

import steadycall
from steadycall._chain import DEPTH, walk


class RetryError(Exception):
    """As tenacity's, whose last attempt may be anything."""

    last_attempt: object = None


RetryError.__module__ = "tenacity"


class Attempt:
    def __init__(self, error):
        self.error = error

    def exception(self, timeout):
        return self.error


MAKERS = [
    RuntimeError,
    RetryError,
    TimeoutError,
    TypeError,
    ConnectionResetError,
    lambda: steadycall.HTTPStatusError(url="http://x/", code=503, msg="", why="w"),
    lambda: steadycall.HTTPStatusError(url="http://x/", code=429, msg="", why="w"),
]

edges = st.lists(
    st.tuples(st.integers(0, 29), st.integers(0, 29), st.sampled_from(["cause", "context", "attempt", "argument"])),
    max_size=120,
)


@st.composite
def graphs(draw):
    """Some exceptions with any links between them, some of them groups of others."""
    errors = [make() for make in draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=15))]
    for members in draw(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=4), max_size=8)):
        errors.append(ExceptionGroup("g", [errors[number % len(errors)] for number in members]))
    for source, target, link in draw(edges):
        error, other = errors[source % len(errors)], errors[target % len(errors)]
        if link == "cause":
            error.__cause__ = other
        elif link == "context":
            error.__context__ = other
            error.__suppress_context__ = draw(st.booleans())
        elif link == "argument":
            error.args = (*error.args, other)
        else:
            error.last_attempt = Attempt(other)
    return errors


@given(graphs())
def test_any_graph_of_exceptions_is_walked_to_an_end_and_judged(errors):
    for error in errors:
        met = list(walk(error))
        assert met[0] == (0, error)
        assert len({id(found) for _, found in met}) == len(met) <= len(errors)
        depths = [depth for depth, _ in met]
        assert depths == sorted(depths)
        assert depths[-1] <= DEPTH
        assert steadycall.classify_exception(error).reason.endswith(".")


@given(graphs(), st.integers(0, 29))
def test_what_stands_outside_is_never_entered(errors, number):
    outside = errors[number % len(errors)]
    for error in errors:
        assert all(found is not outside for depth, found in walk(error, outside) if depth > 0)


def test_a_lattice_of_groups_is_walked_once_and_not_once_for_each_way():
    level = [RuntimeError(), RuntimeError()]
    for _ in range(DEPTH - 1):
        level = [ExceptionGroup("l", level), ExceptionGroup("r", level)]
    before = time.perf_counter()
    assert len(list(walk(level[0]))) < 50
    assert time.perf_counter() - before < 1  # 2**19 ways lead through it
