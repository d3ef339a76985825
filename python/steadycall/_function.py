"""What a front has to know of the function it runs, and how it raises what that one raised."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from ._chain import attribute
from ._errors import ConfigError
from ._hooks import AWAITED, YIELDS, code_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, NoReturn

UNFINISHED = frozenset({CoroutineType, GeneratorType, AsyncGeneratorType})
"""What a call gives of whose body nothing has run yet."""


_SET_CONTEXT = BaseException.__dict__["__context__"].__set__


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise it with the context it has; Python would make it what our caller is handling at the moment."""
    context = error.__context__
    try:
        raise error
    finally:
        _SET_CONTEXT(error, context)  # not by assignment, which a frozen dataclass refuses
        del error, context


def awaitable(fn: object, work: Any) -> Awaitable[Any]:
    """What a coroutine function gave.

    Raises:
        ConfigError: nobody could await it.
    """
    if work.__class__ is not CoroutineType and not hasattr(work, "__await__"):
        raise ConfigError("fn", name_of(fn), "a coroutine function (a plain function needs call)")
    return work  # type: ignore[no-any-return]  # seen to be one


def note(error: BaseException, text: str) -> None:
    """Say it on the exception, once: a scripted or a kept exception may be raised many times."""
    try:
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    except Exception:
        pass  # it takes no notes, and is raised as it is


def refuse_unfinished(fn: Callable[..., Any], answer: Any) -> None:
    """Refuse what a coroutine or generator function gives: none of its body has run yet, so it cannot have failed.

    Raises:
        ConfigError: ``fn`` is such a function. One that merely hands on a generator made elsewhere is none.
    """
    if answer.__class__ is CoroutineType:
        answer.close()
        raise ConfigError("fn", name_of(fn), "a plain function (a coroutine function needs acall)")
    if code_flags(fn) & YIELDS:
        raise ConfigError("fn", f"the generator function {name_of(fn)}", "a plain or a coroutine function")


def awaited(given: object) -> bool:
    """Whether it is a coroutine function."""
    return given is not None and bool(code_flags(given) & AWAITED)


def request_id_of(error: object) -> str | None:
    """The server's id for a request, where an SDK's error tells it."""
    found = attribute(error, "request_id")
    return found if isinstance(found, str) else None


def name_of(fn: object) -> str:
    """A callable's name for messages."""
    while (inner := getattr(fn, "func", None)) is not None and not hasattr(fn, "__qualname__"):
        fn = inner  # functools.partial
    return getattr(fn, "__qualname__", None) or type(fn).__name__
