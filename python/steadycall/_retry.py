"""``retry``: the decorator."""

from __future__ import annotations

from functools import partial, update_wrapper

from ._errors import ConfigError
from ._operation import BoundPolicy, name_of
from ._policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, Protocol, TypeVar, overload

    P = ParamSpec("P")
    T_co = TypeVar("T_co", covariant=True)

    class Retried(Protocol[P, T_co]):
        """A function that is retried."""

        policy: Policy

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
        def retry_with(self, **changes: Any) -> Retried[P, T_co]: ...

    T = TypeVar("T")

    @overload
    def retry(policy: Callable[P, T], /) -> Retried[P, T]: ...
    @overload
    def retry(
        policy: Policy | BoundPolicy | None = None, /, **options: Any
    ) -> Callable[[Callable[P, T]], Retried[P, T]]: ...


HOOKS = ("validate", "sleep", "clock", "rng", "on_retry", "on_end")
"""What is no field of a policy but lent to its calls; the names ``Policy.bind`` takes."""

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # inspect.CO_GENERATOR and its like


def retry(policy: Any = None, /, **options: Any) -> Any:
    """Decorate a function, plain or ``async``, or a method, so that it is run until it succeeds or a policy gives up.

    ``@retry``, ``@retry(tries=3)``, ``@retry(policy)`` and ``@retry(policy, deadline=10)`` all work. The decorated
    function keeps its signature, types and docs, has the policy as ``fn.policy``, and ``fn.retry_with(**changes)``
    is the same function under a changed one.

    Args:
        policy: a ``Policy``, or what its ``bind`` gave; ``None`` is the default policy.
        options: fields of ``Policy`` that replace the policy's own, and ``validate``, ``sleep``, ``clock``, ``rng``,
            ``on_retry``, ``on_end`` as for ``Policy.bind``.

    Returns:
        A decorator.

    Raises:
        ConfigError: a value that makes no sense, or a generator function, which cannot be run a second time once it
            has given something away.
        TypeError: an unknown option.
    """
    if policy is not None and not isinstance(policy, (Policy, BoundPolicy)):
        if not callable(policy):
            raise ConfigError("policy", repr(policy), "a Policy, what Policy.bind gave, or None")
        return _decorate(policy, BoundPolicy(Policy()))
    return partial(_decorate, bound=bind(policy, options))


def bind(policy: Policy | BoundPolicy | None, options: dict[str, Any]) -> BoundPolicy:
    """A policy with its hooks, some of both replaced by ``options``."""
    hooks = {} if not isinstance(policy, BoundPolicy) else policy.hooks()
    plain = policy.policy if isinstance(policy, BoundPolicy) else policy or Policy()
    changes = {name: value for name, value in options.items() if name not in HOOKS}
    hooks |= {name: options[name] for name in HOOKS if name in options}
    return (plain.replace(**changes) if changes else plain).bind(**hooks)


def _decorate(fn: Any, bound: BoundPolicy) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        raise ConfigError("fn", f"a {type(fn).__name__}", f"the function itself: put retry below @{type(fn).__name__}")
    if not callable(fn):
        raise ConfigError("fn", repr(fn), "a function")
    flags = _flags(fn)
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        raise ConfigError("fn", f"the generator function {name_of(fn)}", "a plain or a coroutine function")
    if flags & _COROUTINE:
        acall = bound.acall

        async def retried(*args: Any, **kwargs: Any) -> Any:
            return await acall(fn, *args, **kwargs)

    else:
        call = bound.call

        def retried(*args: Any, **kwargs: Any) -> Any:
            return call(fn, *args, **kwargs)

    wrapper: Any = update_wrapper(retried, fn)
    wrapper.policy = bound.policy
    wrapper.retry_with = lambda **changes: _decorate(fn, bind(bound, changes))
    return wrapper


def _flags(fn: Any) -> int:
    """The code flags of a function, a method, a partial, or an object with ``__call__``."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(fn, "__code__", None) or getattr(getattr(type(fn), "__call__", None), "__code__", None)
    marked = getattr(fn, "_is_coroutine_marker", None) is not None  # inspect.markcoroutinefunction
    return (code.co_flags if code is not None else 0) | (_COROUTINE if marked else 0)
