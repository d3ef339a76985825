"""``classify_exception``: the walk through a chain, what goes before what, and Python's own errors."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import pickle
import socket
import ssl
import subprocess
import sys
import urllib.error

import pytest

import steadycall
from steadycall import _exceptions
from steadycall._chain import DEPTH, walk
from steadycall._exceptions import TABLES, given_up, is_known, judge
from steadycall._known_databases import PEP249
from steadycall.testing import Answer, FakeServer, answers


def http(status, body=b"", headers=()):
    return steadycall.HTTPStatusError(url="http://x/", code=status, msg="", body=body, header_pairs=headers, why="w")


def chained(*errors):
    """Each raised from the next."""
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def judged(error):
    return steadycall.classify_exception(error)


# The walk


def test_causes_contexts_and_members_of_groups_are_found():
    inner = http(503)
    context = RuntimeError()
    context.__context__ = inner
    assert judged(chained(RuntimeError(), context)).status == 503
    assert judged(ExceptionGroup("two", [ValueError(), ExceptionGroup("one", [inner])])).status == 503


def handling(error, then):
    """What ``then`` is once it was raised while ``error`` was being handled."""
    try:
        try:
            raise error
        except Exception:
            then()
    except Exception as raised:
        return raised


def test_a_suppressed_context_is_not_part_of_the_chain():
    def loud():
        raise RuntimeError

    def quiet():
        raise RuntimeError from None

    assert judged(handling(http(503), loud)).status == 503
    assert judged(handling(http(503), quiet)).status is None


def test_an_exception_carried_as_an_argument_is_found():
    assert judged(RuntimeError("the model", http(503))).status == 503


def test_circles_end():
    first, second = RuntimeError(), RuntimeError()
    first.__cause__, second.__cause__ = second, first
    group = ExceptionGroup("itself", [first])
    first.__context__ = group
    assert judged(group).kind == "call"


def test_what_stands_deeper_than_twenty_is_not_looked_at():
    assert judged(chained(*(RuntimeError() for _ in range(DEPTH)), http(503))).status == 503
    assert judged(chained(*(RuntimeError() for _ in range(DEPTH + 1)), http(503))).status is None


def test_the_shortest_way_to_an_exception_counts():
    inner = chained(RuntimeError(), http(503))
    long_way = chained(*(RuntimeError() for _ in range(DEPTH)), inner)
    assert judged(ExceptionGroup("both", [long_way, inner])).status == 503


def test_a_long_chain_is_not_followed_to_its_end():
    head = chained(*(RuntimeError() for _ in range(100_000)))
    assert len(list(walk(head))) == DEPTH + 1
    # Freed from the head, link by link: freeing it from the outside would recurse in C.
    while head is not None:
        head.__cause__, head = None, head.__cause__


def test_what_was_being_handled_before_the_work_is_no_part_of_it():
    def work():
        raise http(503)

    before = http(429, answers.openai.insufficient_quota().body)
    error = handling(before, work)
    assert error.__context__ is before
    assert judge(error, outside=before).failure.status == 503
    assert judged(error).status == 429


def test_nothing_is_changed_by_being_judged():
    error = chained(RuntimeError(), http(503))
    before = dict(vars(error)), error.__cause__, error.__context__, error.__traceback__
    judged(error)
    assert (dict(vars(error)), error.__cause__, error.__context__, error.__traceback__) == before


# Wishes to stop


@pytest.mark.parametrize("wish", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_wish_to_stop_anywhere_in_the_chain_is_raised_as_itself(wish):
    for error in (
        wish(),
        chained(RuntimeError(), wish()),
        chained(http(429), RuntimeError(), wish()),
        BaseExceptionGroup("one", [http(503), wish()]),
    ):
        with pytest.raises(wish) as caught:
            judged(error)
        assert any(caught.value is found for _, found in walk(error))


def test_another_librarys_wish_to_stop_is_raised_too():
    class GreenletExit(BaseException):
        pass

    with pytest.raises(GreenletExit):
        judged(GreenletExit())


def test_a_timer_that_ran_out_is_no_cancellation():
    async def main():
        async with asyncio.timeout(0):
            await asyncio.sleep(5)

    async def waited():
        await asyncio.wait_for(asyncio.sleep(5), 0.001)

    for work in (main, waited):
        with pytest.raises(TimeoutError) as caught:
            asyncio.run(work())
        failure = judged(chained(RuntimeError(), caught.value))
        assert (failure.kind, failure.retryable, failure.sent) == ("call", True, "maybe")


# What goes before what


class CircuitOpen(steadycall.CallError):
    """As a breaker's refusal."""


CircuitOpen.__module__ = "steadycall._errors"

RANKED = [
    (CircuitOpen(why="open", retry_after=7.0), "The circuit breaker is open, so nothing was sent."),
    (http(429), "The provider limits the pace of calls; a wait clears it."),
    (http(500), "The provider's server failed."),
    (ConnectionResetError(), "The connection broke before the answer was complete."),
    (json.JSONDecodeError("x", "", 0), "An answer came, but not in the form that was asked for."),
    (RuntimeError(), "The function failed."),
]


@pytest.mark.parametrize("first", range(len(RANKED)))
def test_the_higher_ranked_finding_counts_wherever_it_stands(first):
    for second in range(first + 1, len(RANKED)):
        (high, reason), (low, _) = RANKED[first], RANKED[second]
        for error in (ExceptionGroup("", [low, high]), ExceptionGroup("", [high, low])):
            assert judged(error).reason == reason
        outer = RuntimeError()
        outer.__cause__, outer.__context__ = low, high
        outer.__suppress_context__ = False
        assert judged(outer).reason == reason


def test_the_deepest_answer_counts():
    assert judged(chained(http(500), RuntimeError(), http(400))).status == 400
    assert judged(chained(http(400), RuntimeError(), http(500))).status == 500


def test_a_spent_quota_goes_before_a_deeper_answer_whatever_its_status():
    quota = http(403, b'{"error": {"code": "insufficient_quota"}}')
    failure = judged(chained(quota, http(500)))
    assert (failure.status, failure.retryable) == (403, False)


def test_of_two_answers_in_a_group_the_one_that_no_retry_can_fix_counts():
    for members in ([http(503), http(400)], [http(400), http(503)]):
        assert judged(ExceptionGroup("", members)).status == 400


def test_of_two_rate_limits_in_a_group_the_longer_wait_counts():
    short, long = http(429, headers=(("retry-after", "1"),)), http(429, headers=(("retry-after", "9"),))
    for members in ([short, long], [long, short]):
        assert judged(ExceptionGroup("", members)).hint.seconds == 9.0


def test_a_class_that_names_the_phase_goes_before_one_raised_for_anything():
    failure = judged(chained(urllib.error.URLError("x"), ConnectionResetError()))
    assert failure.sent == "maybe"
    failure = judged(chained(ConnectionError(), ConnectionRefusedError()))
    assert failure.sent == "no"


def test_an_open_breaker_says_when_it_lets_a_call_through():
    assert judged(CircuitOpen(why="open", retry_after=7.0)).hint.seconds == 7.0
    assert judged(CircuitOpen(why="open")).hint is None


# Python's own errors


@pytest.mark.parametrize(
    ("error", "kind", "sent"),
    [
        (ConnectionRefusedError(), "call", "no"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "call", "no"),
        (OSError(errno.ENETUNREACH, "x"), "call", "no"),
        (OSError(errno.EHOSTUNREACH, "x"), "call", "no"),
        (ConnectionResetError(), "call", "maybe"),
        (BrokenPipeError(), "call", "maybe"),
        (TimeoutError(), "call", "maybe"),
        (urllib.error.URLError(TimeoutError()), "call", "no"),
        (urllib.error.URLError("refused"), "call", "no"),
        (ssl.SSLCertVerificationError(1, "x"), "permanent", "no"),
        (ssl.SSLError(1, "x"), "call", "maybe"),
        (ssl.SSLEOFError(8, "x"), "call", "maybe"),
        (OSError("no number"), "call", "maybe"),
        (OSError(errno.EMFILE, "x"), "call", "maybe"),
        (OSError(errno.EIO, "x"), "call", "maybe"),
        (BlockingIOError(errno.EAGAIN, "x"), "call", "maybe"),
        (OSError(errno.ENOSPC, "x"), "permanent", "maybe"),
        (OSError(errno.EROFS, "x"), "permanent", "maybe"),
        (FileNotFoundError(errno.ENOENT, "x"), "permanent", "maybe"),
        (FileNotFoundError("raised by hand"), "permanent", "maybe"),
        (PermissionError(errno.EACCES, "x"), "permanent", "maybe"),
        (IsADirectoryError(errno.EISDIR, "x"), "permanent", "maybe"),
        (json.JSONDecodeError("x", "", 0), "validation", "maybe"),
        (ValueError(), "call", "maybe"),
        (KeyError("choices"), "call", "maybe"),
        (AssertionError(), "call", "maybe"),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_an_error_of_python_is_judged_by_its_type_and_number(error, kind, sent):
    failure = judged(error)
    assert (failure.kind, failure.sent) == (kind, sent)
    assert failure.retryable is (kind != "permanent")
    assert failure.status is None


PROGRAMMING = [TypeError, NameError, UnboundLocalError, AttributeError, ImportError, ModuleNotFoundError]
PROGRAMMING += [NotImplementedError, RecursionError, SyntaxError]


@pytest.mark.parametrize("error", PROGRAMMING)
def test_a_programming_error_is_permanent_whatever_stands_behind_it(error):
    for found in (error(), chained(error(), http(503)), chained(error(), http(429))):
        assert judged(found).kind == "permanent"
        assert not is_known(found)


def test_a_programming_error_behind_an_answer_does_not_hide_the_answer():
    assert judged(chained(http(503), AttributeError())).status == 503
    assert judged(chained(RuntimeError(), TypeError())).kind == "permanent"


def test_a_subclass_is_judged_as_its_nearest_known_parent():
    class Slow(ConnectionRefusedError):
        pass

    assert judged(Slow()).sent == "no"


# What is retried where `retry_on` is not given


def test_known_are_errors_of_http_databases_the_system_and_time_limits():
    known = [http(503), OSError(), TimeoutError(), ConnectionError(), urllib.error.URLError("x"), ssl.SSLError()]
    known += [chained(RuntimeError(), http(400)), FileNotFoundError(), CircuitOpen(why="open")]
    assert [error for error in known if not is_known(error)] == []
    unknown = [ValueError(), RuntimeError(), KeyError(), json.JSONDecodeError("x", "", 0), Exception()]
    unknown += [KeyboardInterrupt(), asyncio.CancelledError(), TypeError(), ExceptionGroup("", [ValueError()])]
    assert [error for error in unknown if is_known(error)] == []


def test_the_error_a_layer_below_gave_up_on_is_found_through_wrappers():
    inner = http(503)
    assert given_up(chained(RuntimeError(), inner)) is inner
    assert given_up(RuntimeError()) is None


# steadycall's own errors


def gave_up(url, **options):
    with pytest.raises(steadycall.CallError) as caught:
        steadycall.call(url, {}, tries=1, **options)
    return caught.value


@pytest.mark.parametrize(
    "answer",
    [
        answers.openai.rate_limited(2),
        answers.openai.insufficient_quota(),
        answers.gemini.overloaded(),
        Answer(reset="before"),
        Answer(body=b"{", truncate=0),
        Answer(body=b"<html></html>"),
        Answer(garbage=b"nonsense\r\n\r\n"),
    ],
)
def test_an_error_of_ours_stands_for_the_failure_the_layer_below_gave_up_on(answer):
    with FakeServer(answer) as server:
        error = gave_up(server.url)
    assert error.failure is not None
    assert judged(error) == error.failure
    assert judged(RuntimeError(error)) == error.failure
    assert error.failure.kind == error.kind
    assert pickle.loads(pickle.dumps(error)).failure == error.failure


def test_what_the_layer_below_was_told_not_to_retry_stays_its_judgement():
    with FakeServer(503) as server:
        error = gave_up(server.url, retry_status={429})
    assert judged(error).kind == "permanent"


def test_a_deadline_stands_for_the_failure_before_it_or_for_lost_time():
    with FakeServer(answers.openai.rate_limited(9)) as server:
        with pytest.raises(steadycall.DeadlineExceeded) as caught:
            steadycall.call(server.url, {}, deadline=5)
    late = caught.value
    assert judged(late).hint.seconds == 9.0
    late.__cause__ = None
    assert judged(late).status == 429
    failure = judged(steadycall.DeadlineExceeded(why="late", stage="before_attempt"))
    assert (failure.kind, failure.retryable, failure.sent) == ("call", True, "no")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http(503), "call"),
        (steadycall.ResponseError(why="w", status=200, body=b"{"), "call"),
        (steadycall.ResponseError(why="w", status=200, body=b"{}"), "validation"),
        (steadycall.ConnectError(why="w", detail="d"), "call"),
        (steadycall.TLSError(why="w", detail="d", kind=steadycall.FailureKind.PERMANENT), "permanent"),
        (steadycall.TLSError(why="w", detail="d"), "call"),
        (steadycall.ProxyError(why="w", detail="d"), "permanent"),
        (steadycall.ReadError(why="w", detail="d", sent="maybe"), "call"),
        (steadycall.AttemptTimeout(why="w", detail="d", phase="pool"), "call"),
        (steadycall.AttemptTimeout(why="w", detail="d", phase="read", sent="maybe"), "call"),
        (steadycall.CallError(why="w"), "call"),
        (steadycall.ConfigError("tries", "0", "at least 1"), "permanent"),
    ],
    ids=repr,
)
def test_an_error_of_ours_that_was_made_by_hand_is_judged_by_its_class(error, kind):
    failure = judged(error)
    assert failure.kind == kind
    assert failure.reason.endswith(".")


# Hostile and odd exceptions


class Hostile(Exception):
    """Everything asked of it fails."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("package", sorted(TABLES))
def test_a_class_of_a_known_name_that_has_nothing_of_the_real_one_is_judged_and_never_raises(package):
    for name in TABLES[package]:
        for base in (Exception, Hostile):
            if package in ("steadycall", "builtins"):
                continue
            impostor = type(name, (base,), {"__module__": package})
            assert judged(impostor()).reason.endswith(".")
            assert judged(impostor("x", 3)).reason.endswith(".")


def test_a_module_name_that_is_no_text_is_no_error():
    assert judged(type("Odd", (Exception,), {"__module__": 3})()).kind == "call"


def test_only_the_error_classes_of_a_database_are_taken_for_them():
    assert set(PEP249) == {
        *("DatabaseError", "InterfaceError", "InternalError", "OperationalError"),
        *("DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"),
    }


def test_reading_an_exception_imports_nothing():
    code = (
        "import sys, steadycall; steadycall.classify_exception; before = set(sys.modules);"
        "answered = steadycall.HTTPStatusError(url='u', code=429, msg='', why='w', header_pairs=(('retry-after', '1'),));"
        "assert steadycall.classify_exception(RuntimeError(answered)).hint.seconds == 1.0;"
        "print(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_every_table_makes_a_finding_of_the_core():
    assert {type(row).__name__ for table in TABLES.values() for row in table.values()} == {"function"}
    assert callable(_exceptions.row_of(TypeError))
