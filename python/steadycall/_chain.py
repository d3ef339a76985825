"""Every exception that stands behind one: causes, contexts, members of groups, arguments, what tenacity holds back.

Nothing is judged here and nothing imported: foreign classes are known by name. Each exception is met once, nearest
first, so that circles end and the depth told is the smallest one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEPTH = 20
"""What stands deeper is not looked at: nobody wraps that often, and a generated chain must not cost more."""


def walk(exc: BaseException, outside: BaseException | None = None) -> Iterator[tuple[int, BaseException]]:
    """Every exception behind ``exc`` with its depth, ``exc`` itself first at depth 0.

    ``outside`` was being handled before the work began, so Python made it the context of whatever the work raised;
    it tells nothing about the work and is not entered.
    """
    seen = {id(exc), id(outside)}
    level = [exc]
    for depth in range(DEPTH + 1):
        below = []
        for error in level:
            yield depth, error
            for found in behind(error):
                if id(found) not in seen:
                    seen.add(id(found))
                    below.append(found)
        if not below:
            return
        level = below


def behind(error: BaseException) -> Iterator[BaseException]:
    """What stands directly behind ``error``, the explicit before the implicit."""
    found = [attribute(error, "__cause__")]
    if not attribute(error, "__suppress_context__"):
        found.append(attribute(error, "__context__"))
    if is_a(error, BaseExceptionGroup):
        found += attribute(error, "exceptions") or ()
    found.append(last_attempt(error))
    # httpcore erases cause and context of what it raises (`raise exc from None`), and keeps the ssl error as argument.
    found += [argument for argument in attribute(error, "args") or () if is_a(argument, Exception)]
    for inner in found:
        if is_a(inner, BaseException) and not (is_a(error, TimeoutError) and is_cancellation(inner)):
            yield inner


def last_attempt(error: BaseException) -> Any:
    """What the last attempt of a ``tenacity.RetryError`` raised."""
    if not is_named(error, "tenacity", "RetryError"):
        return None
    attempt = attribute(error, "last_attempt")
    try:
        return attempt.exception(timeout=0)  # a finished future; 0 so that a strange one cannot hold us up
    except Exception:
        return None


def is_cancellation(error: BaseException) -> bool:
    """Whether it is ``asyncio.CancelledError``, found without importing asyncio.

    Below a ``TimeoutError`` it is only how the timer cut the work (``asyncio.timeout`` raises the one from the
    other), and nobody's wish to stop; so the walk does not go there.
    """
    return is_named(error, "asyncio", "CancelledError")


def is_control_flow(error: BaseException) -> bool:
    """Whether it is no failure but somebody's wish to stop: cancelled, interrupted, exiting, closing.

    Other libraries' such wishes (``gevent.GreenletExit``, ``trio.Cancelled``) are no ``Exception`` either.
    """
    return not is_a(error, Exception, BaseExceptionGroup)


def is_a(error: object, *classes: type) -> bool:
    """``isinstance`` that runs no code of the object's own, which ``__class__`` may be."""
    return issubclass(type(error), classes)


def is_named(error: BaseException, package: str, *names: str) -> bool:
    """Whether one of its classes has one of the names and comes from the package."""
    return any(cls.__name__ in names and package_of(cls) == package for cls in type(error).__mro__)


def package_of(cls: type) -> str:
    """The top package a class says it comes from."""
    module = cls.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""


def attribute(error: object, name: str) -> Any:
    """An attribute of something foreign; ``None`` where there is none or asking for it fails."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None
