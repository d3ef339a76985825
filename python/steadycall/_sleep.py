"""The sleep used when a caller gives none: one place, so that one fixture can replace it everywhere.

``replacement`` is asked before ``time.sleep`` and ``asyncio.sleep``; the pytest plugin's ``fake_sleep`` sets it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

replacement: "Callable[[float], Awaitable[object] | object] | None" = None
