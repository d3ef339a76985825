"""gevent: run a blocking attempt in the hub's thread pool when the process was monkey-patched."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._native import HttpCall


def in_hub_threadpool(one: HttpCall) -> Callable[[], Any]:
    """How to make one attempt: in the pool when ``socket`` was patched, straight otherwise.

    A greenlet that is killed while it waits ends at once; its attempt is aborted and its socket closed.
    """
    if not sys.modules["gevent.monkey"].is_module_patched("socket"):
        return one.attempt

    def attempt() -> Any:
        hub = sys.modules["gevent"].get_hub()
        try:
            return hub.threadpool.apply(one.attempt)
        except BaseException:
            one.abort()
            raise

    return attempt
