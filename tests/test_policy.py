"""``Policy`` and ``Backoff``: values that are checked when they are made."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import tomllib
from datetime import timedelta

import pytest

import steadycall
from steadycall import Backoff, ConfigError, FailureKind, Policy
from steadycall.testing import ScriptedOperation


def refused(make, *says):
    with pytest.raises(ConfigError) as caught:
        make()
    for text in says:
        assert text in str(caught.value)
    return caught.value


def picky(failure, error):
    return failure.status != 409


# Every field

NO_WAIT = [math.nan, math.inf, -math.inf, -1, True, "1", [], 10**400]
NO_LIMIT = [*NO_WAIT, 0, 0.0]
NO_COUNT = [0, -1, True, 2.0, "2", math.nan, [], 2**32]
NO_FLAG = [None, 0, 1, "yes", []]
WRONG = {
    "tries": [*NO_COUNT, None],
    "base": [*NO_WAIT, None],
    "cap": [*NO_WAIT, None],
    "max_wait": [*NO_WAIT, None],
    "deadline": NO_LIMIT,
    "attempt_timeout": NO_LIMIT,
    "min_attempt": [*NO_WAIT, None],
    "backoff": ["fixed", 2, [Backoff.none()], {"permanent": Backoff.none()}, {"calls": Backoff.none()}, {None: 1}],
    "validation_tries": NO_COUNT,
    "max_requests": NO_COUNT,
    "hint_jitter": [math.nan, -0.1, 1.1, True, "0.1", None, timedelta(1)],
    "retry_status": [503, "503", [True], [503.0], [42], [200], ["503"], [[503]], [None]],
    "retry_transport": NO_FLAG,
    "retry_maybe_processed": NO_FLAG,
    "retry_exhausted": NO_FLAG,
    "retry_on": ["OSError", OSError(), [OSError, 3], int, KeyboardInterrupt, BaseException, GeneratorExit],
    "retry_if": [3, "no", True],
}


def test_every_field_has_wrong_values_here():
    assert list(WRONG) == list(inspect.signature(Policy).parameters)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]], ids=repr)
def test_a_wrong_value_is_refused_by_field_value_and_what_is_allowed(field, value):
    wrong = refused(lambda: Policy(**{field: value}), "must be", "got")
    assert wrong.field.split("[")[0] == field
    assert wrong.value
    assert wrong.allowed


def test_a_backoff_for_one_kind_must_be_a_backoff():
    assert refused(lambda: Policy(backoff={"call": 2}), "a Backoff", "got 2").field == "backoff['call']"


def test_an_unknown_field_is_a_type_error():
    with pytest.raises(TypeError, match="retries"):
        Policy(retries=3)
    with pytest.raises(TypeError, match="retries"):
        Policy().replace(retries=3)
    with pytest.raises(TypeError):
        Policy(3)


def test_a_backoff_and_base_or_cap_exclude_each_other_where_nothing_would_use_them():
    for unused in ({"base": 2}, {"cap": 2}):
        refused(lambda unused=unused: Policy(backoff=Backoff.none(), **unused), "base or cap")
        both = {"call": Backoff.none(), "rate_limited": Backoff.none()}
        refused(lambda unused=unused, both=both: Policy(backoff=both, **unused), "base or cap")
        assert Policy(backoff={"call": Backoff.none()}, **unused).backoff == {"call": Backoff.none()}


@pytest.mark.parametrize("make", [Backoff.full_jitter, Backoff.exponential])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1, True, "1", None], ids=repr)
def test_a_backoff_is_checked_when_it_is_made(make, wrong):
    assert refused(lambda: make(wrong, 1)).field == "base"
    assert refused(lambda: make(1, wrong)).field == "cap"
    assert refused(lambda: Backoff.fixed(wrong)).field == "seconds"


@pytest.mark.parametrize("wrong", ["some", "", 3, None, True], ids=repr)
def test_a_jitter_is_one_of_three(wrong):
    if wrong is not None:
        assert refused(lambda: Backoff.exponential(1, 2, wrong), '"none", "equal" or "full"').field == "jitter"


# The table of the issue

TABLE = Policy(
    tries=3,
    backoff={
        FailureKind.CALL: Backoff.exponential(0.5, 1.0),
        FailureKind.RATE_LIMITED: Backoff.fixed(2.0),
        FailureKind.VALIDATION: Backoff.none(),
    },
)


def answered(status, **headers):
    return steadycall.HTTPStatusError(
        url="http://x/", code=status, msg="", why="w", header_pairs=tuple(headers.items())
    )


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([ConnectionResetError(), OSError(5, "EIO")], [0.5, 1.0]),
        ([answered(503), answered(500)], [0.5, 1.0]),
        ([answered(429), answered(429)], [2.0, 2.0]),
        ([answered(503), answered(429)], [0.5, 2.0]),
    ],
    ids=["network and IO", "5xx", "429 without a hint", "mixed"],
)
def test_each_kind_waits_by_its_own_row_of_the_table(front, failures, waits):
    slept: list[float] = []
    assert front.call(TABLE, ScriptedOperation([*failures, "well"]), sleep=slept.append) == "well"
    assert slept == waits


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_permanent_status_is_never_retried_by_the_table(front, status):
    slept: list[float] = []
    with pytest.raises(steadycall.HTTPStatusError):
        front.call(TABLE, ScriptedOperation([answered(status)]), sleep=slept.append)
    assert slept == []


def test_failed_validation_is_tried_again_at_once_and_shares_the_three_tries(front):
    answers = iter("abc")
    slept: list[float] = []
    with pytest.raises(ValueError, match="no"):
        front.call(TABLE, lambda: next(answers), validate=lambda _: int("no"), sleep=slept.append)
    assert slept == [0.0, 0.0]
    assert next(answers, None) is None


# A value


def test_a_policy_shows_only_what_differs_from_the_defaults():
    assert repr(Policy()) == "Policy()"
    shown = Policy(tries=3, retry_status=[503, 429], retry_on=(OSError, KeyError), deadline=timedelta(seconds=90))
    assert repr(shown) == "Policy(tries=3, deadline=90.0, retry_status={429, 503}, retry_on=(OSError, KeyError))"
    by_kind = Policy(backoff={"call": Backoff.fixed(2)})
    assert repr(by_kind) == "Policy(backoff={'call': Backoff.fixed(2.0)})"
    assert eval(repr(by_kind), {"Policy": Policy, "Backoff": Backoff}) == by_kind


MADE = [
    Policy(),
    TABLE,
    Policy(tries=2, backoff=Backoff.full_jitter(0.5, 8)),
    Policy(retry_on=OSError, retry_status={429}, retry_if=picky, deadline=4, max_requests=6),
]


@pytest.mark.parametrize("policy", MADE, ids=repr)
def test_equal_policies_are_equal_hash_alike_and_survive_pickle_and_copies(policy):
    for twin in (pickle.loads(pickle.dumps(policy)), copy.copy(policy), copy.deepcopy(policy), policy.replace()):
        assert twin == policy
        assert hash(twin) == hash(policy)
        assert repr(twin) == repr(policy)
        assert twin.call(lambda: "works") == "works"
    assert policy != policy.replace(tries=4)
    assert policy != "a policy"


def test_a_policy_that_was_used_can_still_be_pickled():
    policy = Policy(tries=2)
    policy.call(int)
    assert pickle.loads(pickle.dumps(policy)) == policy


@pytest.mark.parametrize(
    "backoff",
    [Backoff.full_jitter(1, 30), Backoff.exponential(0.5, 1, jitter="equal"), Backoff.fixed(2), Backoff.none()],
    ids=repr,
)
def test_a_backoff_is_a_value(backoff):
    for twin in (pickle.loads(pickle.dumps(backoff)), copy.deepcopy(backoff), eval(repr(backoff))):
        assert twin == backoff
        assert hash(twin) == hash(backoff)
    assert backoff != Backoff.fixed(99)
    assert Backoff.full_jitter(1, 30) == Backoff.exponential(1, 30, jitter="full")


def test_a_timedelta_is_the_seconds_it_stands_for():
    assert Policy(base=timedelta(seconds=2)) == Policy(base=2.0) == Policy(base=2)
    assert Policy(base=timedelta(seconds=2)).base == 2.0


def test_a_policy_is_frozen():
    policy = Policy(backoff={"call": Backoff.none()})
    with pytest.raises(AttributeError, match=r"replace\(tries=...\)"):
        policy.tries = 3
    with pytest.raises(AttributeError, match="frozen"):
        del policy.tries
    with pytest.raises(TypeError):
        policy.backoff["call"] = Backoff.fixed(1)


def test_replace_changes_what_is_named_and_checks_it():
    assert Policy(tries=2).replace(deadline=4) == Policy(tries=2, deadline=4)
    refused(lambda: Policy().replace(deadline=-4), "deadline")


def test_the_callers_own_mapping_and_list_are_not_kept():
    kinds, statuses = {"call": Backoff.none()}, [429]
    policy = Policy(backoff=kinds, retry_status=statuses)
    kinds["call"] = Backoff.fixed(9)
    statuses.append(503)
    assert policy == Policy(backoff={"call": Backoff.none()}, retry_status=[429])


# Settings files

SETTINGS = """
tries = 3
deadline = 90
retry_status = [429, 503]

[backoff]
call = { exponential = { base = 0.5, cap = 1.0, jitter = "equal" } }
rate_limited = { fixed = 2 }
validation = "none"
"""


def test_a_policy_is_read_from_a_settings_file():
    settings = {
        "tries": 3,
        "deadline": 90,
        "retry_status": [429, 503],
        "backoff": {
            "call": Backoff.exponential(0.5, 1.0, jitter="equal"),
            "rate_limited": Backoff.fixed(2),
            "validation": Backoff.none(),
        },
    }
    assert Policy.from_mapping(tomllib.loads(SETTINGS)) == Policy.from_mapping(settings) == Policy(**settings)


@pytest.mark.parametrize(
    ("written", "backoff"),
    [
        ("none", Backoff.none()),
        ({"fixed": 2}, Backoff.fixed(2)),
        ({"full_jitter": [1, 30]}, Backoff.full_jitter(1, 30)),
        ({"exponential": [0.5, 1]}, Backoff.exponential(0.5, 1)),
        ({"call": "none"}, {"call": Backoff.none()}),
        (None, None),
    ],
    ids=repr,
)
def test_a_backoff_is_read_from_a_settings_file(written, backoff):
    assert Policy.from_mapping({"backoff": written}) == Policy(backoff=backoff)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"retries": 3}, "settings"),
        ({3: 3}, "settings"),
        ("tries=3", "settings"),
        (None, "settings"),
        ({"tries": 0}, "tries"),
        ({"backoff": "some"}, "backoff"),
        ({"backoff": {"fixed": [1, 2]}}, "backoff.fixed"),
        ({"backoff": {"fixed": {"secs": 1}}}, "backoff.fixed"),
        ({"backoff": {"exponential": 1}}, "backoff.exponential"),
        ({"backoff": {"calls": "none"}}, "backoff"),
        ({"backoff": {"call": 3}}, "backoff"),
        ({"retry_on": "OSError"}, "retry_on"),
    ],
    ids=repr,
)
def test_what_a_settings_file_gets_wrong_is_named(settings, field):
    assert refused(lambda: Policy.from_mapping(settings)).field == field
