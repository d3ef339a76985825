"""``Route``: where else a call may go when its provider gives up, and what is changed on the way."""

from __future__ import annotations

from urllib.parse import urlsplit

from ._errors import ConfigError
from ._native import callback
from ._record import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._call import Headers


@frozen
class Route:
    """One more way to an answer, for ``fallback=``.

    It is taken when the route before it gave up for a reason that another provider can mend: an open circuit, a
    transport or a server that failed to the end, a limit or a quota. Never when the request itself is at fault, never
    after a stream's first delta; always within the same deadline and the same requests.

    Args:
        base_url: http or https, without credentials.
        headers: sent on this route, its key above all; a mapping, pairs, or a callable that gives them. Without any, a
            route to the client's own origin sends the client's; one to elsewhere sends none of them.
        transform: takes the payload and gives the one for this route; ``None`` sends it as it is. It must not change
            what it is given.
        path: taken in place of the call's own path.

    Raises:
        ConfigError: a value that makes no sense.
    """

    base_url: str | None
    headers: Headers | Callable[[], Headers] | None
    transform: Callable[[Any], Any] | None
    path: str | None

    def __init__(
        self,
        base_url: str | None,
        headers: Headers | Callable[[], Headers] | None = None,
        transform: Callable[[Any], Any] | None = None,
        path: str | None = None,
    ) -> None:
        if base_url is not None:
            check_base(base_url)
        callback("transform", transform)
        if path is not None and not isinstance(path, str):
            raise ConfigError("path", repr(path), "a str, or None")
        self.__dict__.update(base_url=base_url, headers=headers, transform=transform, path=path)

    def __repr__(self) -> str:
        # Its headers hold a key.
        return f"Route({None if self.base_url is None else self.base_url.partition('?')[0]!r})"

    def __hash__(self) -> int:
        return hash((self.base_url, self.path))

    def url(self, path: str) -> str:
        """The whole URL of a path.

        Raises:
            ConfigError: a path of somebody else's, or a relative one without a base.
        """
        if not isinstance(path, str):
            raise ConfigError("path", type(path).__name__, "a str")
        path = path if self.path is None else self.path
        absolute = path[:8].lower().startswith(("http://", "https://"))
        if self.base_url is None:
            if absolute:
                return path
            raise ConfigError("path", "one without a host", "a whole URL, where the client has no base_url")
        if absolute:
            if origin(path) != origin(self.base_url):
                # The client's headers hold a key that is for one provider only.
                raise ConfigError("path", "a URL of another origin", "a path, or a URL of the origin of base_url")
            return path
        base, _, query = self.base_url.partition("?")
        url = f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base
        return f"{url}{'&' if '?' in url else '?'}{query}" if query else url

    def is_at(self, other: Route) -> bool:
        """Whether it leads to the same origin as another."""
        return (
            other.base_url is not None and self.base_url is not None and origin(self.base_url) == origin(other.base_url)
        )


def check_base(base_url: object) -> None:
    """Refuse what no path can be joined to.

    Raises:
        ConfigError: it is no http or https URL with a host and without credentials.
    """
    allowed = "an http or https URL with a host and without credentials, or None"
    if not isinstance(base_url, str):
        raise ConfigError("base_url", type(base_url).__name__, allowed)
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        raise ConfigError("base_url", "a broken URL", allowed) from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise ConfigError("base_url", "something else", allowed)


def origin(url: str) -> tuple[str, str | None, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, parts.port or (443 if scheme == "https" else 80)
