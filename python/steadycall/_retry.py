"""``retry``: the decorator."""

from __future__ import annotations

from functools import partial, update_wrapper
from sys import modules

from ._errors import ConfigError
from ._function import UNFINISHED, name_of, refuse_unfinished
from ._hooks import AWAITED, YIELDS, code_flags
from ._loop import running_loop
from ._operation import BoundPolicy
from ._policy import Policy
from ._scope import HERE, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

    from ._fields import Fields
    from ._hooks import Rng, Sleep
    from ._records import AttemptRecord, CallRecord
    from ._time import Clock

    P = ParamSpec("P")
    Q = ParamSpec("Q")
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)

    class Options(Fields, total=False):
        """The fields of a policy, and what `Policy.bind` takes."""

        validate: Callable[[Any], Any] | None
        sleep: Sleep | None
        clock: Clock | None
        rng: Rng | None
        on_retry: Callable[[AttemptRecord], Any] | None
        on_end: Callable[[CallRecord], Any] | None

    class Retried(Protocol[P, T_co]):
        """A function that is retried; of an instance it is a method as any other."""

        policy: Policy

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
        @overload
        def __get__(self, instance: None, owner: type | None = None, /) -> Retried[P, T_co]: ...
        @overload
        def __get__(
            self: Retried[Concatenate[Any, Q], T_co], instance: object, owner: type | None = None, /
        ) -> Callable[Q, T_co]: ...
        def retry_with(self, **changes: Unpack[Options]) -> Retried[P, T_co]: ...

else:

    def overload(signature):
        return signature


HOOKS = ("validate", "sleep", "clock", "rng", "on_retry", "on_end")
"""What is no field of a policy but lent to its calls; the names ``Policy.bind`` takes."""


@overload
def retry(policy: Callable[P, T], /) -> Retried[P, T]: ...
@overload
def retry(  # noqa: F811 - an overload
    policy: Policy | BoundPolicy | None = None, /, **options: Unpack[Options]
) -> Callable[[Callable[P, T]], Retried[P, T]]: ...
def retry(policy: Any = None, /, **options: Any) -> Any:  # noqa: F811 - what is overloaded
    """Decorate a function, plain or ``async``, or a method, so that it is run until it succeeds or a policy gives up.

    ``@retry``, ``@retry(tries=3)``, ``@retry(policy)`` and ``@retry(policy, deadline=10)`` all work. The decorated
    function keeps its signature, types and docs, has the policy as ``fn.policy``, and ``fn.retry_with(**changes)``
    is the same function under a changed one; of a method, ``Class.method.retry_with(**changes)``, which takes the
    instance first.

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
        if not callable(policy) and not isinstance(policy, (staticmethod, classmethod)):
            raise ConfigError("policy", repr(policy), "a Policy, what Policy.bind gave, or None")
        return _decorate(policy, BoundPolicy(Policy()))
    return partial(_decorate, bound=bind(policy, options))


def bind(policy: Policy | BoundPolicy | None, options: Any) -> BoundPolicy:
    """A policy with its hooks, some of both replaced by ``options``."""
    if policy is not None and not isinstance(policy, (Policy, BoundPolicy)):
        raise ConfigError("policy", repr(policy), "a Policy, what Policy.bind gave, a client (for transports), or None")
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
    try:
        wrapper: Any = update_wrapper(retried, fn)
    except TypeError:
        wrapper = update_wrapper(retried, fn, assigned=())  # the name of a mock may be a mock
    wrapper.policy = bound.policy
    wrapper.retry_with = lambda **changes: _decorate(fn, bind(bound, changes))
    return wrapper


# A first attempt that succeeds, where nothing limits it, never meets the loop: most calls are such, and this is all
# they cost. Whatever else happens goes to the loop, with the run that has begun.


def _sync(fn: Any, bound: BoundPolicy) -> Any:
    bound.require_plain()
    plain, loop = bound._plain, bound._run
    begin, here, enter, back = bound._starter.alone, HERE.get, HERE.set, HERE.reset

    def retried(*args: Any, **kwargs: Any) -> Any:
        if not plain or here() is not None:
            return loop(fn, args, kwargs)
        run = begin()
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
    begin, here, enter, back = bound._starter.alone, HERE.get, HERE.set, HERE.reset

    async def retried(*args: Any, **kwargs: Any) -> Any:
        if not plain or here() is not None:
            return await loop(fn, args, kwargs)
        if "trio" in modules:
            running_loop()  # refuses it; asked only then, for asking costs a system call
        run = begin()
        token = enter(run)
        try:
            return await fn(*args, **kwargs)
        except (Exception, BaseExceptionGroup) as error:
            failed = error
        finally:
            try:
                back(token)
            except ValueError:
                leave(token)
        try:
            return await loop(fn, args, kwargs, run, failed)
        finally:
            del failed  # an error holds this frame, which must not hold it

    return retried
