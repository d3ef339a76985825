"""What goes out and what comes back, by example; `test_json_laws.py` holds both to the standard library."""

import collections
import contextlib
import enum
import gc
import json
import math
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator

import pytest

from steadycall import _native


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(typing.NamedTuple):
    x: int
    y: int


@contextlib.contextmanager
def digit_limit(digits: int) -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


# Out


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        ({"model": "m", "n": 1, "stream": False, "stop": None}, b'{"model":"m","n":1,"stream":false,"stop":null}'),
        (["a", ("b", [])], b'["a",["b",[]]]'),
        ({}, b"{}"),
        ("żółw 東京 🐢", '"żółw 東京 🐢"'.encode()),
        ('"\\/\b\f\n\r\t\x00\x1f\x7f', b'"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"'),
        (0.1, b"0.1"),
        (-0.0, b"-0.0"),
        (1.0, b"1.0"),
        (2**63 - 1, b"9223372036854775807"),
        (-(2**63), b"-9223372036854775808"),
        (None, b"null"),
        (True, b"true"),
    ],
)
def test_a_plain_payload_is_written_compactly_and_in_utf_8(payload: object, body: bytes) -> None:
    assert _native._dumps(payload) == body


@pytest.mark.parametrize("body", [b"", b"{}", b"not json", b"\x00\xff"])
def test_bytes_go_as_they_are(body: bytes) -> None:
    assert _native._dumps(body) == body


@pytest.mark.parametrize(
    "payload",
    [
        {0: "int", True: "bool", None: "none", 0.5: "float"},
        {1: "first", "1": "second"},
        [math.nan, math.inf, -math.inf],
        [2**63, 2**64, -(2**63) - 1, 10**400],
        "lone \ud800 surrogate",
        {"\udfff": 1},
        [Colour.RED, Level.HIGH, Point(1, 2)],
        {Colour.RED: Level.HIGH, Level.HIGH: 1},
        collections.OrderedDict(a=[collections.defaultdict(int, b=1)]),
    ],
)
def test_what_only_json_dumps_knows_how_to_write_it_writes(payload: object) -> None:
    assert _native._dumps(payload) == json.dumps(payload).encode()


class Angry(dict):  # type: ignore[type-arg] # any dict will do
    def items(self) -> typing.Never:
        raise LookupError("no items today")


@pytest.mark.parametrize(
    "payload",
    [
        {"when": object()},
        [{1, 2}],
        [b"bytes inside"],
        bytearray(b"{}"),
        {("a", "b"): 1},
        {b"key": 1},
        [10**5000],
        Angry(a=1),
    ],
)
def test_what_json_dumps_refuses_is_refused_in_its_words(payload: object) -> None:
    with pytest.raises(Exception) as theirs:
        json.dumps(payload)
    with pytest.raises(type(theirs.value)) as ours:
        _native._dumps(payload)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value) == str(theirs.value)


def test_a_cycle_is_the_value_error_of_json_dumps() -> None:
    payload: dict[str, object] = {"a": 1}
    payload["self"] = [payload]
    with pytest.raises(ValueError, match="Circular reference detected"):
        _native._dumps(payload)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_a_cycle_is_seen_where_it_closes_and_not_written_again_and_again() -> None:
    payload: dict[str, object] = {"long": "x" * 4_000_000}
    payload["self"] = payload
    before = peak_memory()
    with pytest.raises(ValueError, match="Circular reference detected"):
        _native._dumps(payload)
    assert peak_memory() < before + 100_000_000


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = {"a": [1]}
    assert _native._dumps([shared, shared, {"again": shared}]) == b'[{"a":[1]},{"a":[1]},{"again":{"a":[1]}}]'


@pytest.mark.parametrize("depth", [1, 99, 100, 101, 102, 500])
def test_nesting_is_written_to_any_depth_json_dumps_reaches(depth: int) -> None:
    assert _native._dumps(nested(depth)).replace(b" ", b"") == b"[" * depth + b"1" + b"]" * depth


def test_nesting_without_end_is_a_recursion_error() -> None:
    with pytest.raises(RecursionError):
        _native._dumps(nested(200_000))


def test_writing_leaves_no_reference_behind() -> None:
    leaf = {"k": [0.5, "x"]}
    payloads: list[object] = [[leaf, leaf], {"a": leaf}, [leaf, math.nan], [leaf, object()], {"a": leaf, 1: leaf}]
    before = sys.getrefcount(leaf)
    for payload in payloads * 20:
        with contextlib.suppress(TypeError):
            _native._dumps(payload)
    assert sys.getrefcount(leaf) == before


# In


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a": [1, 2.5, "x", null, true]}\r\n\t', {"a": [1, 2.5, "x", None, True]}),
        (b"-0", 0),
        (b"1e2", 100.0),
        (b"1E400", math.inf),
        (b"[Infinity, -Infinity]", [math.inf, -math.inf]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"0.1000000000000000055511151231257827", 0.1),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        (b'"\\ud83d\\udc22 \\u00e9"', "🐢 é"),
        (b'"\\ud800"', "\ud800"),
        (b'"\xed\xa0\x80"', "\ud800"),
        (b"\xef\xbb\xbf[]", []),
        ('{"a": "ż"}'.encode("utf-16"), {"a": "ż"}),
        ('{"a": "ż"}'.encode("utf-32-be"), {"a": "ż"}),
        (b"[" * 400 + b"]" * 400, None),
    ],
)
def test_an_answer_reads_as_json_loads_reads_it(body: bytes, value: object) -> None:
    assert repr(_native._loads(body)) == repr(json.loads(body))
    if value is not None:
        assert repr(_native._loads(body)) == repr(value)


def test_a_repeated_key_keeps_its_first_place_and_its_last_value() -> None:
    assert list(_native._loads(b'{"a": 1, "b": 2, "a": 3}').items()) == [("a", 3), ("b", 2)]


def test_nan_is_read() -> None:
    assert math.isnan(_native._loads(b"NaN"))


def test_a_negative_zero_stays_negative() -> None:
    assert math.copysign(1.0, _native._loads(b"-0.0")) == -1.0


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b" ", b"[", b"]", b"[1,]", b"{,}", b'{"a"}', b'{"a":}', b"{1:2}", b"[1 2]", b"1 1", b"[]]", b"'a'"),
        *(b"01", b"-01", b"00", b"1.", b".5", b"+1", b"1e", b"1e+", b"-", b"--1", b"0x1", b"1_0", b"1.e1", b"- 1"),
        *(b"nan", b"NAN", b"Na", b"-NaN", b"Infinit", b"infinity", b"+Infinity", b"Infinityx", b"-Inf"),
        *(b"True", b"nul", b"nulll", b"tru e", b"undefined"),
        *(b'"', b'"\n"', b'"\x00"', b'"\x1f"', b'"\\x"', b'"\\u12"', b'"\\u12g4"', b'"\\', b'"\\ud800\\u"'),
        *(b"\xff", b'"\xff"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b"\xa0[]", b"\x0b[]", b"[]\x00"),
        *(b"\xef\xbb\xbf", b"\xef\xbb", b"\xff\xfe", b"\xfe\xff[", b"\x00[", b"[\x00", b"\xff\xfe\x00\x00"),
        *(b"// c\n1", b"/**/1", b"<html>", b"9" * 4301, b"[-" + b"9" * 4301 + b"]"),
    ],
)
def test_what_json_loads_refuses_is_refused_in_its_words(body: bytes) -> None:
    with pytest.raises(ValueError) as theirs:
        json.loads(body)
    with pytest.raises(type(theirs.value)) as ours:
        _native._loads(body)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value) == str(theirs.value)


def test_nesting_without_end_in_an_answer_is_a_recursion_error() -> None:
    with pytest.raises(RecursionError):
        _native._loads(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize("sign", [b"", b"-"])
@pytest.mark.parametrize(
    ("limit", "digits", "read"),
    [(4300, 4300, True), (4300, 4301, False), (640, 640, True), (640, 641, False), (0, 9000, True), (5000, 5000, True)],
)
def test_the_digits_of_an_integer_are_limited_as_python_limits_them(
    limit: int, digits: int, read: bool, sign: bytes
) -> None:
    body = b'{"n": ' + sign + b"7" * digits + b"}"
    with digit_limit(limit):
        if read:
            assert _native._loads(body) == json.loads(body)
        else:
            with pytest.raises(ValueError, match="integer string conversion"):
                _native._loads(body)


def test_digits_after_the_point_are_not_limited() -> None:
    body = b"0." + b"3" * 10_000
    with digit_limit(640):
        assert _native._loads(body) == json.loads(body)


def test_reading_leaves_no_reference_behind() -> None:
    bodies = [b'{"some key": [1.5, "x", {"other key": null}]}', b'["\\ud800"]', b"[1, 2", b'{"a": NaN}'] * 50
    for body in bodies:
        with contextlib.suppress(ValueError):
            _native._loads(body)
    gc.collect()
    before = len(gc.get_objects())
    for body in bodies:
        with contextlib.suppress(ValueError):
            _native._loads(body)
    gc.collect()
    assert len(gc.get_objects()) <= before + 5


def test_no_conversion_is_the_first_to_import_a_module() -> None:
    code = """
        import sys
        from steadycall import _native

        before = set(sys.modules)
        _native._dumps({"a": [1, 0.5, "x"]})
        _native._dumps({1: float("nan"), "b": "\\ud800"})
        _native._loads(b'{"a": 1}')
        _native._loads(b'"\\\\ud800"')
        for bad in (b"nope", b"", b"\\xff"):
            try:
                _native._loads(bad)
            except ValueError:
                pass
        assert set(sys.modules) == before, set(sys.modules) - before
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def peak_memory() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value
