"""gevent: run what blocks in the hub's thread pool when the process was monkey-patched."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")


def cooperative(work: Callable[P, T], abort: Callable[[], Any]) -> Callable[P, T]:
    """How to do something that blocks: in the pool when ``socket`` was patched, straight otherwise.

    A greenlet that is killed while it waits ends at once; the work is aborted and its socket closed.
    """
    patched = sys.modules.get("gevent.monkey")
    if patched is None or not patched.is_module_patched("socket"):
        return work

    def done_elsewhere(*args: P.args, **kwargs: P.kwargs) -> T:
        hub = sys.modules["gevent"].get_hub()
        try:
            return hub.threadpool.apply(work, args, kwargs)  # type: ignore[no-any-return]  # what work returns
        except BaseException:
            abort()
            raise

    return done_elsewhere
