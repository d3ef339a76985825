"""The law of both directions: whatever the standard library says, we say.

Values are compared with their types, their order and the sign of zero, so that 1, 1.0 and True, NaN
and a missing answer all differ. The examples are derandomised: a run is the same run every time.
"""

import collections
import decimal
import enum
import json
import math
import random
import struct
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from steadycall import _native

laws = settings(derandomize=True, max_examples=150, deadline=None, database=None)

# Out


class Word(str):
    __slots__ = ()


class Count(int):
    pass


class Share(float):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    ONE = 1


class Items(list):  # type: ignore[type-arg] # any list will do
    pass


class Mapping(dict):  # type: ignore[type-arg] # any dict will do
    pass


Pair = collections.namedtuple("Pair", "left right")  # the untyped kind is a case too

texts = st.text(max_size=40) | st.text(
    st.characters() | st.sampled_from('\ud800\udfff"\\\n\x00\x7f\u2028'), max_size=20
)
ints = (
    st.integers()
    | st.integers(-(2**66), 2**66)
    | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64])
    | st.sampled_from([4299, 4300]).map(lambda zeros: 10**zeros)
)
floats = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 1e15, 1e-5, 1e-4, 2.0**53])
plain = st.none() | st.booleans() | ints | floats | texts
odd = (
    texts.map(Word)
    | st.integers().map(Count)
    | st.floats().map(Share)
    | st.sampled_from([Colour.RED, Level.HIGH, Plain.ONE, b"x", bytearray(b"x"), {1}, 1j, decimal.Decimal(1), object])
)
odd_keys = plain | st.sampled_from([Colour.RED, Level.HIGH, Word("k"), Count(1), Share(0.5), b"k", ("t",), Plain.ONE])


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6)


def odd_containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(texts, inner, max_size=4)
    return (
        lists
        | dicts
        | lists.map(tuple)
        | lists.map(Items)
        | dicts.map(Mapping)
        | dicts.map(collections.OrderedDict)
        | st.dictionaries(odd_keys, inner, max_size=4)
        | st.builds(Pair, inner, inner)
    )


plain_values = st.recursive(plain, containers, max_leaves=20)
any_values = st.recursive(plain | odd, odd_containers, max_leaves=20)


@laws
@given(plain_values)
def test_a_plain_payload_means_what_json_dumps_makes_of_it(payload: object) -> None:
    assert_written_alike(payload)


@laws
@given(any_values)
def test_an_odd_payload_means_or_raises_what_json_dumps_makes_of_it(payload: object) -> None:
    assert_written_alike(payload)


def test_every_double_reads_back_as_itself() -> None:
    dice = random.Random(20_261_130)
    numbers = [struct.unpack("<d", dice.randbytes(8))[0] for _ in range(20_000)]
    numbers += [dice.uniform(-1, 1) for _ in range(5_000)] + [float(dice.randrange(10**17)) for _ in range(5_000)]
    numbers = [number for number in numbers if math.isfinite(number)]
    for read in (json.loads, _native._loads):
        assert [number.hex() for number in read(_native._dumps(numbers))] == [number.hex() for number in numbers]


def test_each_character_of_a_text_survives_at_each_place() -> None:
    specials = '\x00\x01\x1f !"#[\\]^\x7f\x80\xff\u0100\u07ff\u0800\uffff\U00010000\U0010ffff\xa0\xa2\xdc'
    for special in specials:
        for place in range(20):
            text = "a" * place + special + "b" * (19 - place)
            assert json.loads(_native._dumps([text])) == [text]
            assert _native._loads(_native._dumps({text: special * place})) == {text: special * place}


# In

ENCODINGS = [
    "utf-8",
    "utf-8",
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
]

digits = st.integers(0, 10**24).map(str)
json_numbers = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "-"]),
        digits,
        st.just("") | digits.map(".{}".format),
        st.just("")
        | st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "-", "+"]), st.integers(0, 400)),
    ),
)
json_oddities = st.sampled_from(
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "-0",
        "-0.0",
        "1e400",
        "-1e400",
        "1e-400",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "nan",
        "Infinit",
        "-NaN",
        "-",
        '"\\ud800"',
        '"\\ud83d\\udc22"',
        '"\\udc22\\ud83d"',
        '"\\u0000"',
        '"\t"',
        "",
        " ",
        "'a'",
        "//",
        "nul",
        "]",
        "{",
        "9" * 19,
        "9223372036854775808",
        "-9223372036854775809",
        "1" * 4300,
        "1" * 4301,
        "-" + "1" * 4300,
        "[" * 201 + "]" * 201,
    ]
)
json_strings = texts.flatmap(lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)]))
json_leaves = st.sampled_from(["null", "true", "false"]) | json_numbers | json_strings | json_oddities
spaces = st.sampled_from(["", "", "", " ", "\n", "\r\n\t ", "\u00a0", "\x0b"])


def json_containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    keys = st.sampled_from(['"a"', '"b"', '"\\u0061"']) | json_strings
    pairs = st.lists(st.tuples(keys, inner), max_size=5)
    return st.builds(
        lambda items, space: f"[{space}{f',{space}'.join(items)}]", st.lists(inner, max_size=5), spaces
    ) | st.builds(
        lambda items, space: "{" + f"{space},".join(f"{key}:{space}{value}" for key, value in items) + "}",
        pairs,
        spaces,
    )


json_texts = st.recursive(json_leaves, json_containers, max_leaves=12)
real_texts = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | texts, containers, max_leaves=12),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)


@laws
@given(json_texts, st.sampled_from(ENCODINGS))
def test_a_text_reads_or_fails_as_json_loads_has_it_in_every_encoding(text: str, encoding: str) -> None:
    assert_read_alike(text.encode(encoding, "surrogatepass"))


@laws
@given(real_texts, st.sampled_from(ENCODINGS), st.randoms(use_true_random=False))
def test_a_damaged_answer_reads_or_fails_as_json_loads_has_it(text: str, encoding: str, dice: random.Random) -> None:
    body = bytearray(text.encode(encoding, "surrogatepass"))
    for _ in range(dice.randint(0, 3)):
        at = dice.randint(0, len(body))
        dice.choice(DAMAGES)(body, at, dice)
    assert_read_alike(bytes(body))


@laws
@given(st.binary(max_size=12))
def test_noise_reads_or_fails_as_json_loads_has_it(body: bytes) -> None:
    assert_read_alike(body)


def test_each_short_text_of_json_characters_reads_or_fails_as_json_loads_has_it() -> None:
    dice = random.Random(7)
    pieces = [*'{}[],:"\\ -+.eE019', "NaN", "Infinity", "null", "true", '"a"', "\\u00e9", "\\ud800", "é", "\t", "\x00"]
    for _ in range(15_000):
        assert_read_alike("".join(dice.choices(pieces, k=dice.randint(1, 7))).encode())


def test_long_and_halfway_decimals_read_as_json_loads_has_them() -> None:
    dice = random.Random(11)
    for _ in range(4_000):
        number = struct.unpack("<d", struct.pack("<Q", dice.randrange(0x7FEF_FFFF_FFFF_FFFF)))[0]
        halfway = (decimal.Decimal(number) + decimal.Decimal(math.nextafter(number, math.inf))) / 2
        digits = dice.choice([17, 19, 20, 40, 800])
        for text in (repr(number), f"{halfway:.{digits}e}", f"{decimal.Decimal(number):.{digits}e}"):
            assert_read_alike(text.encode())


def insert(body: bytearray, at: int, dice: random.Random) -> None:
    body.insert(at, dice.choice(b'{}[],:"\\ -+.eE019nu\x00\n\xff\xed\xc3\xef'))


def delete(body: bytearray, at: int, dice: random.Random) -> None:
    del body[at : at + dice.randint(1, 3)]


def replace(body: bytearray, at: int, dice: random.Random) -> None:
    body[at : at + 1] = bytes([dice.randrange(256)])


def repeat(body: bytearray, at: int, dice: random.Random) -> None:
    body[at:at] = body[at : at + dice.randint(1, 8)]


def cut(body: bytearray, at: int, dice: random.Random) -> None:
    del body[at:]


DAMAGES: list[Callable[[bytearray, int, random.Random], None]] = [insert, delete, replace, repeat, cut]


def assert_written_alike(payload: object) -> None:
    if type(payload) is bytes:  # the one thing that is not JSON's business
        assert _native._dumps(payload) == payload
        return
    theirs = outcome(lambda: json.dumps(payload))
    ours = outcome(lambda: _native._dumps(payload))
    if isinstance(theirs, Exception):
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))
    else:
        assert anatomy(json.loads(ours)) == anatomy(json.loads(theirs))  # type: ignore[arg-type] # an exception fails here


def assert_read_alike(body: bytes) -> None:
    theirs = outcome(lambda: json.loads(body))
    ours = outcome(lambda: _native._loads(body))
    if isinstance(theirs, Exception):
        assert (type(ours), str(ours)) == (type(theirs), str(theirs)), body
    else:
        assert anatomy(ours) == anatomy(theirs), body


def outcome(run: Callable[[], object]) -> object:
    try:
        return run()
    except Exception as error:  # which one is the question
        return error


def anatomy(value: object) -> object:
    """The value with its types, key order and float bits, fit for `==`."""
    match value:
        case dict():
            return dict, [(anatomy(key), anatomy(inner)) for key, inner in value.items()]
        case list():
            return list, [anatomy(inner) for inner in value]
        case float():
            return float, value.hex()
        case _:
            return type(value), value
