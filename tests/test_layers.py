"""The house rules that a compiler does not check: imports go down, public names are whole, reasons are documented.

What a rule forbids is looked for in the text of the tree, without comments, strings and tests where those may differ.
An exception to a rule stands here with its reason, and a test fails when it is no longer needed.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import steadycall
import steadycall.testing
from steadycall import _errors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "steadycall"
CRATES = ("core", "net", "py")

# Python's modules in import order: a module imports only modules above it, for type checkers too.
PYTHON_ORDER = [
    "_native",
    "_sleep",
    "_kinds",
    "_record",
    "_records",
    "_error_base",
    "_units_record",
    "_errors",
    "_time",
    "_usage",
    "_watch",
    "_gevent",
    "_hooks",
    "_fields",
    "_scope",
    "_classify",
    "_chain",
    "_loop",
    "_function",
    "_finding",
    "_known_http",
    "_known_grpc",
    "_known_sdks",
    "_known_databases",
    "_known_builtins",
    "_known_ours",
    "_exceptions",
    "_judge",
    "_operation",
    "_policy",
    "_retry",
    "_attempts",
    "_call",
    "_family",
    "_carrier",
    "_limits",
    "_route",
    "_circuits",
    "_reply",
    "_front",
    "_admission",
    "_found",
    "_delivery",
    "_body",
    "_stream_attempt",
    "_streaming",
    "_stream",
    "_client_base",
    "_client_stream",
    "_client",
    "_transport",
    "_sdk",
    "_bulk_records",
    "_bulk_files",
    "_bulk_settings",
    "_bulk_stream",
    "_bulk",
    "_units_layer",
    "_units_end",
    "_units_work",
    "_units",
]

# Imports that go up, for type checkers only: (module, module it names) to why it is so.
TYPES_UPWARD = {
    ("_judge", "_policy"): "the gates it asks are fields of the policy it is handed",
    ("_operation", "_policy"): "a policy makes its fronts, and the fronts give it back as `policy`",
}

# Imports that go up: (crate, file's module, module it uses) to why it is so.
UPWARD = {
    ("core", "failure", "classify"): "a Failure tells its dialect by the enum that stands with the tables of dialects",
    ("py", "bridge", "passing"): "who waits at the gates is told there that they opened",
    ("py", "bridge", "exchange"): "what came of a request is put together by the exchange that waits for it",
    ("py", "bridge", "http_call"): "a delivered outcome is judged by the call that waits for it",
    ("py", "runtime", "bridge"): "what must not cross a fork is one object, with the queues of event loops in it",
}

# What the command line imports that is not public, and why.
CLI_PRIVATE = {
    "_bulk_settings": "the help shows the defaults of bulk, which are stated there alone",
}

# Files longer than 400 lines without their tests, and why they stay one.
LONG = {
    "src/py/src/http_call.rs": "one class with the parameters of `call` listed one by one",
    "src/py/src/run.rs": "one class, whose methods must stand in one block",
}

MOST_LINES = 400


# Reading the tree


def rust_files(crate: str) -> list[Path]:
    return sorted((ROOT / "src" / crate / "src").rglob("*.rs"))


def code(path: Path) -> str:
    """A Rust file without comments, texts and the tests at its foot; lines keep their numbers."""
    text = path.read_text()
    text = re.split(r"^#\[cfg\(test\)\]\n(?=mod )", text, maxsplit=1, flags=re.M)[0]
    quoted = r'b?r#+".*?"#+|b?r?"(?:[^"\\]|\\.)*"|b?\'(?:[^\'\\]|\\.)\''
    return re.sub(
        rf"(?P<text>{quoted})|//[^\n]*",
        lambda found: '""' + "\n" * found["text"].count("\n") if found["text"] else "",
        text,
        flags=re.S,
    )


def module_of(crate: str, path: Path) -> str:
    """The crate's own module a file belongs to: ``classify/facts.rs`` is part of ``classify``."""
    return path.relative_to(ROOT / "src" / crate / "src").parts[0].removesuffix(".rs")


def listed_modules(crate: str) -> list[str]:
    return re.findall(r"^(?:pub )?mod (\w+);", code(ROOT / "src" / crate / "src" / "lib.rs"), flags=re.M)


def used_modules(text: str, known: list[str]) -> set[str]:
    """Modules named after ``crate::``, in groups too: ``use crate::{json, errors::Target}``."""
    used = set(re.findall(r"\bcrate::(\w+)", text))
    for group in re.findall(r"\bcrate::\{([^;]*?)\};", text):
        flat = re.sub(r"\{[^{}]*\}", "", group)
        used |= {name.strip().split("::")[0].split(" ")[0] for name in flat.split(",")}
    return used & set(known)


def upward_imports() -> Iterator[tuple[str, str, str]]:
    for crate in CRATES:
        order = listed_modules(crate)
        for path in rust_files(crate):
            here = module_of(crate, path)
            if here != "lib":
                for used in used_modules(code(path), order):
                    if order.index(used) > order.index(here):
                        yield crate, here, used


def imports(path: Path, *, for_types: bool = True) -> set[str]:
    """Modules of this package that a Python file imports, anywhere in it or at run time only."""
    found = set()
    tree = ast.parse(path.read_text())
    if not for_types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steadycall"):
            rest = (node.module or "").split(".")[1:]
            found |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("steadycall.")}
    return found


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def python_upward_imports(*, for_types: bool) -> set[tuple[str, str]]:
    return {
        (name, used)
        for place, name in enumerate(PYTHON_ORDER)
        if name != "_native"
        for used in imports(PACKAGE / f"{name}.py", for_types=for_types) - set(PYTHON_ORDER[:place])
    }


def tree() -> list[Path]:
    """Every text file of the tree that git knows, or would add."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git tree")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


# Imports go down


@pytest.mark.parametrize(
    ("crate", "forbidden"),
    [
        ("core", r"\btokio\b|\bpyo3\b|\brand\b|\bhyper(?:_\w+)?\b"),
        (
            "core",
            r"\bInstant\b|\bSystemTime\b|\bMutex\b|\bRwLock\b|\bstd::(?:thread|net|fs|env|io)\b|\basync\b|\bawait\b",
        ),
        ("net", r"\bpyo3\b|\bsteadycall_py\b|\bjiter\b"),
        ("py", r"\bhyper(?:_\w+)?\b|\btower_\w+\b"),
    ],
)
def test_no_crate_names_what_belongs_to_a_layer_above_or_beside_it(crate: str, forbidden: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in rust_files(crate)
        for number, line in enumerate(code(path).splitlines(), 1)
        if re.search(forbidden, line)
    ]
    assert found == []


def test_core_depends_on_parsing_only() -> None:
    text = (ROOT / "src" / "core" / "Cargo.toml").read_text()
    section = text.split("[dependencies]")[1].split("[", maxsplit=1)[0]
    assert set(re.findall(r"^([\w-]+)", section, flags=re.M)) <= {"memchr", "serde", "serde_json"}


def test_only_the_client_files_of_net_name_the_http_client() -> None:
    allowed = {"connect.rs", "client.rs", "fault.rs", "answer.rs", "lane.rs"}
    client = r"\b(?:hyper(?:_\w+)?|tower_\w+|h2)::"
    assert {path.name for path in rust_files("net") if re.search(client, code(path))} <= allowed


def test_a_rust_file_uses_only_files_above_it_in_its_lib() -> None:
    assert set(upward_imports()) - UPWARD.keys() == set()


def test_every_exception_to_the_import_order_is_still_needed() -> None:
    assert UPWARD.keys() - set(upward_imports()) == set()


@pytest.mark.parametrize("crate", CRATES)
def test_every_rust_file_is_listed_in_its_lib(crate: str) -> None:
    assert {module_of(crate, path) for path in rust_files(crate)} - {"lib"} == set(listed_modules(crate))


def test_every_python_module_has_its_place_in_the_order() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert modules == set(PYTHON_ORDER) - {"_native"}


def test_a_python_module_imports_only_modules_above_it() -> None:
    assert python_upward_imports(for_types=False) == set()
    assert python_upward_imports(for_types=True) == TYPES_UPWARD.keys()


def test_nothing_but_the_testing_kit_imports_the_testing_kit() -> None:
    assert [path.name for path in PACKAGE.glob("*.py") if "testing" in imports(path)] == []


def test_nothing_imports_the_command_line_and_it_uses_public_names_only() -> None:
    assert [path.name for path in PACKAGE.glob("*.py") if "cli" in imports(path) and path.stem != "__main__"] == []
    used = {name for path in (PACKAGE / "cli").glob("*.py") for name in imports(path, for_types=False)}
    assert used - {"cli", "testing"} - set(steadycall.__all__) == CLI_PRIVATE.keys()


# Nothing panics


@pytest.mark.parametrize("crate", ["net", "py"])
def test_net_and_py_neither_unwrap_nor_panic(crate: str) -> None:
    # Indexing is looked for by clippy, which knows types; these are cheap to say here too.
    forbidden = r"\.unwrap\(\)|\.expect\(|\b(?:panic|unreachable|todo|unimplemented)!"
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in rust_files(crate)
        for number, line in enumerate(code(path).splitlines(), 1)
        if re.search(forbidden, line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("http_call.rs", r"guarded\(py, [^|]*\|\| act\(&mut work\)\)"),
        ("options.rs", r"guarded\([^|]*\|\|\s*\{?\s*Self::checked\("),
        ("classify.rs", r"guarded\(py, [^|]*\|\| Ok\(classify_with\(&answer, statuses\)\)\)"),
        ("runtime.rs", r"catch_unwind\(AssertUnwindSafe\(\|\| runtime\.block_on\(watched\)\)\)"),
    ],
)
def test_a_panic_of_ours_would_still_come_out_as_an_error(name: str, entry: str) -> None:
    # There is no switch to make one happen, so this looks at the one place through which each kind of work goes.
    assert re.search(entry, code(ROOT / "src" / "py" / "src" / name))


def test_every_allow_has_its_reason_on_its_line() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for crate in CRATES
        for path in rust_files(crate)
        for line in path.read_text().splitlines()
        if re.match(r"\s*#!?\[allow\(", line) and "reason" not in line and "//" not in line
    ]
    assert found == []


# Size


def source_files() -> list[Path]:
    return [path for crate in CRATES for path in rust_files(crate)] + sorted(PACKAGE.rglob("*.py"))


def lines_without_tests(path: Path) -> int:
    text = path.read_text()
    if path.suffix == ".rs":
        text = re.split(r"^#\[cfg\(test\)\]\n(?=mod )", text, maxsplit=1, flags=re.M)[0]
    return len(text.splitlines())


def test_a_file_has_one_subject_and_so_at_most_400_lines() -> None:
    long = {str(path.relative_to(ROOT)) for path in source_files() if lines_without_tests(path) > MOST_LINES}
    assert long == LONG.keys()


# Public names


PUBLIC = [steadycall, steadycall.testing]


def names_imported(nodes: list[ast.stmt]) -> set[str]:
    found = (alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    return {alias.asname or alias.name for alias in found}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_is_sorted_and_complete(module: ModuleType) -> None:
    names: list[str] = module.__all__
    assert names == sorted(set(names))
    if module is steadycall:
        tree = ast.parse(Path(inspect.getfile(module)).read_text())
        now = names_imported(tree.body)
        later = names_imported([inner for node in tree.body if isinstance(node, ast.If) for inner in node.body])
        assert later == steadycall._LATER.keys()
        assert set(names) == now | later
    for name in names:
        assert hasattr(module, name)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_says_what_it_is(module: ModuleType) -> None:
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, (str, ModuleType)):
            continue
        if not (value.__doc__ or "").strip():
            silent.append(name)
        if inspect.isclass(value):
            silent += [
                f"{name}.{attribute}"
                for attribute, member in vars(value).items()
                if not attribute.startswith("_")
                and (callable(member) or isinstance(member, (property, classmethod, staticmethod)))
                and not (getattr(member, "__doc__", None) or "").strip()
            ]
    assert silent == []


def test_init_imports_now_or_when_named_and_does_nothing_else() -> None:
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    assert isinstance(body[0], ast.Expr)  # the docstring
    rest = [node for node in body[1:] if not isinstance(node, (ast.ImportFrom, ast.Assign))]
    assert [node for node in rest if not is_for_types(node) and not isinstance(node, ast.FunctionDef)] == []
    assert {node.name for node in rest if isinstance(node, ast.FunctionDef)} == {"__getattr__", "__dir__"}


# Documents


def reasons() -> list[tuple[str, str, str]]:
    """Name, kind and sentence of every ``Reason``, from its one table."""
    table = (ROOT / "src/core/src/failure.rs").read_text().split("\nreasons! {")[1].split("\n}\n")[0]
    found = re.findall(r'^    \w+ (\w+) "(\w+)"\s+"([^"]*)";', table, flags=re.M)
    assert len(found) == len(re.findall(r"^    [A-Z]\w+ ", table, flags=re.M))
    kinds = {"Call": "call", "RateLimited": "rate_limited", "Permanent": "permanent", "Validation": "validation"}
    return [(name, kinds[kind], sentence) for kind, name, sentence in found]


def rows(page: str) -> list[list[str]]:
    """The rows of every table on a page, as cells without backticks."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if not set("".join(row)) <= set("-: ")]


def test_every_reason_has_its_row_in_the_docs() -> None:
    told = [tuple(row[:3]) for row in rows("reasons.md")]
    assert len(reasons()) > 40
    assert [reason for reason in reasons() if reason not in told] == []
    known = {name for name, _, _ in reasons()}
    assert [row[0] for row in rows("reasons.md") if row[0] not in known | {"reason"}] == []


def exceptions() -> list[type[BaseException]]:
    return [value for value in vars(_errors).values() if inspect.isclass(value) and issubclass(value, _errors.Error)]


def test_every_exception_has_its_row_in_the_docs_and_is_public() -> None:
    told = {row[0] for row in rows("errors.md")}
    names = {error.__name__ for error in exceptions()}
    assert len(names) >= 12
    assert names <= told
    assert names <= set(steadycall.__all__)


def test_every_field_of_an_error_is_explained_in_the_docs() -> None:
    told = " ".join(cell for row in rows("errors.md") for cell in row)
    fields = {field for error in exceptions() for field in inspect.get_annotations(error)}
    assert {field for field in fields if not re.search(rf"\b{field}\b", told)} == set()


def test_every_stop_reason_and_kind_is_explained_in_the_docs() -> None:
    told = {row[0] for row in rows("errors.md")}
    assert {member.value for member in (*steadycall.StopReason, *steadycall.FailureKind)} <= told


def test_every_public_class_says_whether_threads_may_share_it() -> None:
    told = " ".join(row[0] for row in rows("threads.md"))
    names = [name for name in steadycall.__all__ if inspect.isclass(getattr(steadycall, name))]
    errors = {error.__name__ for error in exceptions()}
    assert [name for name in names if name not in errors and not re.search(rf"\b{name}\b", told)] == []


def test_every_dependency_has_its_reason_in_the_docs() -> None:
    told = (ROOT / "docs" / "decisions.md").read_text()
    named = set()
    for crate in CRATES:
        text = (ROOT / "src" / crate / "Cargo.toml").read_text()
        for section in re.findall(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", text, flags=re.M | re.S):
            named |= set(re.findall(r"^([\w-]+)", section, flags=re.M))
    missing = {name for name in named if not name.startswith("steadycall") and f"`{name}`" not in told}
    assert missing == set()


# The tree


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    machine = re.compile(r"(?<![\w.~$}/-])/(?:work|root|home)/")
    found = []
    for path in tree():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path != Path(__file__) and machine.search(text):
            found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_markdown_has_one_sentence_per_line() -> None:
    found = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        prose = re.sub(
            r"^(```|~~~).*?^\1", lambda block: "\n" * block[0].count("\n"), path.read_text(), flags=re.M | re.S
        )
        prose = re.sub(r"<!--.*?-->", lambda block: "\n" * block[0].count("\n"), prose, flags=re.S)
        for number, line in enumerate(prose.splitlines(), 1):
            plain = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "x", line)
            if not plain.startswith(("|", "#")) and re.search(r"[a-z)x][.!?] [A-Z]", plain):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert found == []
