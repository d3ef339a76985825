"""Tools for tests of code that calls LLM APIs: a clock that never waits, a server that misbehaves on purpose.

The names are loaded on first use: pytest imports this package in every run, for the plugin next to it, and runs that
never touch a fixture should not pay for sockets and threads.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steadycall.testing import answers
    from steadycall.testing.clock import FakeClock, FakeSleep
    from steadycall.testing.message import Answer, Request
    from steadycall.testing.operation import ScriptedOperation
    from steadycall.testing.server import FakeServer

__all__ = [
    "Answer",
    "FakeClock",
    "FakeServer",
    "FakeSleep",
    "Request",
    "ScriptedOperation",
    "answers",
]

_HOME = {
    "Answer": "message",
    "FakeClock": "clock",
    "FakeServer": "server",
    "FakeSleep": "clock",
    "Request": "message",
    "ScriptedOperation": "operation",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "answers":
        return import_module("steadycall.testing.answers")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
