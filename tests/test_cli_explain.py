"""``steadycall explain``: its figures are the policy's own, its line of time adds up, its pictures show it."""

from __future__ import annotations

import itertools
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadycall import Backoff, Policy
from steadycall.cli import main
from steadycall.cli.latencies import BadLine, percentile, read_latencies
from steadycall.cli.plan import plan_of
from steadycall.cli.svg import MOST_TICKS, svg, ticks

FIXED = ["--tries", "3", "--attempt-timeout", "15", "--backoff", "fixed:2", "--max-wait", "2"]


@pytest.fixture
def explain(capsys):
    def run(*arguments, code=0):
        assert main(["explain", *map(str, arguments)]) == code
        printed = capsys.readouterr()
        assert code or printed.err == ""
        return printed.err if code in (2, 4) else printed.out

    return run


# The plan


POLICIES = st.builds(
    Policy,
    tries=st.integers(1, 5),
    attempt_timeout=st.floats(0.1, 20),
    max_wait=st.sampled_from([0.0, 0.5, 3.0, 60.0]),
    backoff=st.one_of(
        st.none(),
        st.builds(Backoff.fixed, st.floats(0, 5)),
        st.just(
            {"call": Backoff.fixed(1), "rate_limited": Backoff.exponential(0.5, 9), "validation": Backoff.fixed(2)}
        ),
    ),
    validation_tries=st.one_of(st.none(), st.integers(1, 3)),
    max_requests=st.one_of(st.none(), st.integers(1, 9)),
    hint_jitter=st.sampled_from([0.0, 0.5]),
)


@given(policy=POLICIES, chains=st.integers(1, 3))
def test_the_line_of_time_is_as_long_as_the_worst_case(policy, chains):
    plan = plan_of(policy, chains=chains, within=None)
    assert math.isclose(plan.end, policy.worst_case(chains).seconds, abs_tol=1e-6)
    assert sum(not bar.is_wait for bar in plan.line) == policy.worst_case(chains).requests


@given(policy=POLICIES, deadline=st.floats(0.1, 60))
def test_no_line_goes_beyond_the_deadline(policy, deadline):
    plan = plan_of(policy.replace(deadline=deadline), chains=1, within=None)
    assert plan.end <= plan.worst.seconds + 1e-6


@given(policy=POLICIES)
def test_the_line_has_no_gap_and_no_overlap(policy):
    line = plan_of(policy, chains=2, within=None).line
    assert line[0].began == 0.0
    assert all(one.ended == other.began for one, other in itertools.pairwise(line))


def test_the_figures_are_those_of_the_design(explain):
    found = json.loads(explain(*FIXED, "--chains", 2, "--within", 120, "--json"))
    assert found["worst_case"] == {"seconds": 98.0, "requests": 6, "longest_wait": "call"}
    assert round(found["within"].pop("max_attempt_timeout"), 2) == 18.67
    assert found["within"] == {"seconds": 120.0, "fits": True}
    assert found["waits"] == [{"after": n, "least": 2.0, "most": 2.0, "asked": 2.0} for n in (1, 2)]


def test_a_policy_that_does_not_fit_is_exit_code_1_and_says_what_would(explain):
    printed = explain(*FIXED, "--chains", 2, "--within", 97, code=1)
    assert "2 calls one after the other: too long" in printed
    assert "an attempt timeout of at most 14.83 s fits" in printed
    assert "the waits alone are longer" in explain(*FIXED, "--within", 3, code=1)


def test_a_policy_that_nothing_bounds_says_so(explain):
    printed = explain()
    assert "nothing bounds the seconds" in printed
    assert "When every attempt fails at once" in printed
    assert json.loads(explain("--json"))["worst_case"]["seconds"] is None


def test_the_waits_go_as_high_as_backoff_and_server_may(explain):
    printed = explain("--tries", 3, "--max-wait", 7)
    assert re.search(r"after attempt 1 +0 to 1 s +up to 7 s\n", printed)
    assert re.search(r"after attempt 2 +0 to 2 s +up to 7 s\n", printed)
    assert "after attempt 3" not in printed


def test_a_deadline_shorter_than_a_servers_wait_leaves_the_policys_own_waits(explain):
    line = json.loads(explain("--deadline", 20, "--json"))["line"]
    assert [bar["ended"] - bar["began"] for bar in line if bar["is_wait"]] == [1.0, 2.0, 4.0, 8.0]


# The pictures


def test_the_bars_stand_where_they_are_in_time(explain):
    rows = [line for line in explain(*FIXED).splitlines() if "█" in line or "░" in line]
    bars = [(line.index("█" if "█" in line else "░"), line.count("█") + line.count("░")) for line in rows]
    assert len(bars) == 5
    assert all(start + length == after for (start, length), (after, _) in itertools.pairwise(bars))
    assert rows[-1].endswith("34 to 49 s")


def test_a_stream_without_the_signs_gets_others(explain, monkeypatch):
    monkeypatch.setattr("steadycall.cli.paint.writes", lambda signs: False)
    printed = explain(*FIXED)
    assert printed.isascii()
    assert "####" in printed


def test_what_is_piped_has_no_colour_and_fits_100_columns(explain):
    for options in (FIXED, ["--tries", 200], ["--tries", 1], [*FIXED, "--chains", 200]):
        printed = explain(*options)
        assert "\x1b" not in printed
        assert [line for line in printed.splitlines() if len(line) > 100] == []
        assert len(printed.splitlines()) < 110


def test_an_svg_is_whole_and_has_every_bar(explain, tmp_path):
    explain(*FIXED, "--chains", 2, "--svg", tmp_path / "policy.svg")
    root = ET.parse(tmp_path / "policy.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{*}rect[@rx]")) == 10
    assert root.findtext("{*}title") == "Worst case: 98 s, 6 requests, 2 calls one after the other"
    texts = [text.text for text in root.findall("{*}text")]
    assert "call 2, 3" in texts
    assert "Then: all 3 tries are used up" in texts


@given(policy=POLICIES)
def test_an_svg_is_xml_and_nothing_leaves_it(policy):
    root = ET.fromstring(svg(plan_of(policy, chains=1, within=None)))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.findall("{*}rect"):
        assert float(rect.get("x", 0)) + float(rect.attrib["width"]) <= width
        assert float(rect.get("y", 0)) + float(rect.attrib["height"]) <= height


@given(end=st.floats(1e-3, 1e7))
def test_ticks_are_few_and_within(end):
    found = ticks(end)
    assert found[0] == 0.0
    assert 2 <= len(found) <= MOST_TICKS + 1
    assert found[-1] <= end * (1 + 1e-6)


# Latencies


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, share):
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert sum(value <= found for value in ordered) * 100 >= share * len(ordered)
    assert sum(value < found for value in ordered) * 100 < share * len(ordered)


@pytest.mark.parametrize(
    "lines",
    [
        ["1", "2.5", "", "# a note", " 4e0 "],
        ["1.0", '{"elapsed": 2.5, "seconds": 9}', '{"duration": 4}'],
        ['{"seconds": 1}', '{"latency": 2.5}', "4"],
    ],
)
def test_numbers_and_json_lines_are_read(lines):
    found = read_latencies(lines, timeout=2.5)
    assert (found.count, found.p50, found.p99, found.maximum, found.longer) == (3, 2.5, 4.0, 4.0, 1)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "there is no latency"),
        (["1", "x"], "line 2 holds no number"),
        (["nan"], "line 1 holds no number"),
        (["NaN"], "line 1 holds no number"),
        (["-1"], "line 1 holds no number"),
        (["1" + "0" * 400], "line 1 holds no number"),
        (["[" * 100_000], "line 1 holds no number"),
        (["true"], "line 1 holds no number"),
        (["[1]"], "line 1 holds no number"),
        (['{"elapsed": "1"}'], "line 1 holds no number"),
        (['{"took": 1}'], "line 1 has no field 'elapsed' or 'seconds' or 'latency' or 'duration'"),
    ],
)
def test_a_line_without_a_number_of_seconds_is_named(lines, said):
    with pytest.raises(BadLine, match=said):
        read_latencies(lines)


def test_the_attempt_timeout_is_compared_with_them(explain, tmp_path):
    (tmp_path / "took").write_text("".join(f"{n / 10}\n" for n in range(1, 201)))
    printed = explain(*FIXED, "--latencies", tmp_path / "took")
    assert re.search(r"p50 +10 s +the attempt timeout is 1\.50 times that", printed)
    assert re.search(r"p99 +19\.8 s +the attempt timeout is 0\.76 times that", printed)
    assert re.search(r"maximum +20 s +the attempt timeout is 0\.75 times that", printed)
    assert "50 of 200 (25.00%) took longer" in printed
    assert "set --attempt-timeout" in explain("--latencies", tmp_path / "took")


def test_a_field_of_another_name_is_named(explain, tmp_path):
    (tmp_path / "took").write_text('{"took": 3, "elapsed": 1}\n')
    assert json.loads(explain("--latencies", tmp_path / "took", "--key", "took", "--json"))["latencies"]["p50"] == 3.0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_of_a_windows_shell_is_read(explain, tmp_path, encoding):
    (tmp_path / "took").write_bytes("1\r\n2\r\n".encode(encoding))
    assert json.loads(explain("--latencies", tmp_path / "took", "--json"))["latencies"]["count"] == 2


# Errors


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--within", 0], 2, "--within must be"),
        (["--chains", 0], 2, "--chains must be a whole number of at least 1, got 0"),
        (["--deadline", "nan"], 2, "--deadline must be"),
        (["--backoff", "fixed:1", "--base", 2], 2, "--backoff must be left out when base or cap is given"),
        (["--backoff", "fixed:-1"], 2, "a number of --backoff must be a finite number of seconds, 0 or more, got -1"),
        (["--backoff", "fixed:1,2,3"], 2, "--backoff must be like fixed:2, exponential:0.5,10"),
        (["--backoff", "foo:1"], 2, "--backoff must be like fixed:2, exponential:0.5,10"),
        (["--base", 1e308, "--cap", 1e308, "--max-wait", 1e308], 2, "more seconds than a clock can show"),
        (["--attempt-timeout", 1e308, "--tries", 1, "--within", 1e308], 2, "a number is too large"),
        (["--chains", 10**9], 2, "--chains must be at most 10000, got 1000000000"),
        (["--key", "x"], 2, "--key goes with --latencies"),
        (["--latencies", "no such file"], 2, "No such file"),
        (["--latencies", __file__], 4, "line 1 holds no number of seconds"),
        (["--svg", "/no such folder/x.svg"], 1, "No such file"),
        (["extra"], 2, "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said_in_one_line(capsys, arguments, code, said):
    assert main(["explain", *map(str, arguments)]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
