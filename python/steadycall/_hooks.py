"""What callers lend a front: a sleep and dice. One place, so that every front treats them alike."""

from __future__ import annotations

import random
import sys
import time
from types import CodeType

from . import _sleep
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Sleep = Callable[[float], Any]
    Rng = random.Random | int | float | str | bytes


def default_sleep() -> Sleep:
    """``time.sleep``, looked up on its module at each wait so that monkeypatching works."""
    return time.sleep if _sleep.replacement is None else _sleep.replacement


def default_asleep() -> Sleep:
    """``asyncio.sleep``, looked up likewise; asyncio is loaded, for it is running us."""
    return sys.modules["asyncio"].sleep if _sleep.replacement is None else _sleep.replacement


def draws(rng: Rng) -> Callable[[], float]:
    """The callable behind an ``rng=`` argument."""
    if isinstance(rng, random.Random):
        return rng.random
    if isinstance(rng, bool) or not isinstance(rng, (int, float, str, bytes, bytearray)):
        raise ConfigError("rng", type(rng).__name__, "a seed (int, float, str, bytes), a random.Random, or None")
    return random.Random(rng).random


YIELDS, AWAITED = 0x20 | 0x200, 0x80  # inspect.CO_GENERATOR and CO_ASYNC_GENERATOR, CO_COROUTINE


def code_flags(fn: Any) -> int:
    """What kind of function it is; also of a method, a partial, or an object with ``__call__``."""
    while type(fn).__name__ == "partial" and hasattr(fn, "func"):
        fn = fn.func
    called = getattr(type(fn), "__call__", None)  # noqa: B004 - its code is looked at
    codes = (getattr(owner, "__code__", None) for owner in (fn, called))
    flags = next((code.co_flags for code in codes if isinstance(code, CodeType)), 0)  # a mock has any attribute
    mark = getattr(sys.modules.get("inspect"), "_is_coroutine_mark", None)  # of inspect.markcoroutinefunction
    return flags | AWAITED if mark is not None and getattr(fn, "_is_coroutine_marker", None) is mark else flags


def check_sleep(sleep: Sleep, *, may_be_awaited: bool) -> None:
    """Refuse what is no callable and, for a front that blocks, what must be awaited."""
    if not callable(sleep):
        raise ConfigError("sleep", repr(sleep), "a callable that takes seconds, or None")
    if not may_be_awaited and code_flags(sleep) & AWAITED:
        raise ConfigError(
            "sleep", repr(sleep), "a plain callable that takes seconds (a coroutine function needs acall)"
        )
