"""``retry``: the decorator."""

from __future__ import annotations

from functools import partial, update_wrapper

from ._errors import ConfigError
from ._hooks import AWAITED, YIELDS, code_flags
from ._loop import running_loop
from ._native import start
from ._operation import UNFINISHED, BoundPolicy, name_of, refuse_unfinished
from ._policy import Policy
from ._scope import HERE, leave

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
    flags = code_flags(fn)
    if flags & YIELDS:
        raise ConfigError("fn", f"the generator function {name_of(fn)}", "a plain or a coroutine function")
    retried = _async(fn, bound) if flags & AWAITED else _sync(fn, bound)
    wrapper: Any = update_wrapper(retried, fn)
    wrapper.policy = bound.policy
    wrapper.retry_with = lambda **changes: _decorate(fn, bind(bound, changes))
    return wrapper


# A first attempt that succeeds, where nothing limits it, never meets the loop: most calls are such, and this is all
# they cost. Whatever else happens goes to the loop, with the run that has begun.


def _sync(fn: Any, bound: BoundPolicy) -> Any:
    bound.require_plain()
    plain, loop = bound._plain, bound._run
    begin, begin_with = start, (bound._checked, None, bound._now, bound._draw)
    here, enter, back = HERE.get, HERE.set, HERE.reset

    def retried(*args: Any, **kwargs: Any) -> Any:
        if not plain or here() is not None:
            return loop(fn, args, kwargs)
        run = begin(*begin_with)
        token = enter(run)
        try:
            answer = fn(*args, **kwargs)
            if answer.__class__ in UNFINISHED:
                refuse_unfinished(fn, answer)
            return answer
        except (Exception, BaseExceptionGroup) as error:
            failed = error
        finally:
            back(token)
        try:
            return loop(fn, args, kwargs, run, failed)
        finally:
            del failed  # an error holds this frame, which must not hold it

    return retried


def _async(fn: Any, bound: BoundPolicy) -> Any:
    plain, loop = bound._plain, bound._arun
    begin, begin_with = start, (bound._checked, None, bound._now, bound._draw)
    here, enter = HERE.get, HERE.set

    async def retried(*args: Any, **kwargs: Any) -> Any:
        if not plain or here() is not None:
            return await loop(fn, args, kwargs)
        running_loop()
        run = begin(*begin_with)
        token = enter(run)
        try:
            return await fn(*args, **kwargs)
        except (Exception, BaseExceptionGroup) as error:
            failed = error
        finally:
            leave(token)
        try:
            return await loop(fn, args, kwargs, run, failed)
        finally:
            del failed  # an error holds this frame, which must not hold it

    return retried
