"""httpx and its successor httpx2 by what they have in common: requests, responses, streams of bytes and errors.

Neither is imported: the module that owns a request's class is the family its response, stream and errors must be of.
Classes that must have a parent of the family are made when first needed.
"""

from __future__ import annotations

import sys
from importlib import import_module

from ._errors import AttemptTimeout, ConfigError, ConnectError, ProxyError, ReadError, TLSError, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from ._errors import CallError

    Pairs = list[tuple[bytes, bytes]]

# A reason of the core to our class, and to the family's.
ERRORS: dict[str, tuple[type[TransportError], str]] = {
    "connect_failed": (ConnectError, "ConnectError"),
    "connect_timeout": (AttemptTimeout, "ConnectTimeout"),
    "write_timeout": (AttemptTimeout, "WriteTimeout"),
    "pool_timeout": (AttemptTimeout, "PoolTimeout"),
    "read_timeout": (AttemptTimeout, "ReadTimeout"),
    "attempt_timeout": (AttemptTimeout, "ReadTimeout"),
    "certificate_rejected": (TLSError, "ConnectError"),
    "tls_failed": (TLSError, "ConnectError"),
    "proxy_refused": (ProxyError, "ProxyError"),
    "proxy_failed": (ProxyError, "ProxyError"),
    "not_http": (ReadError, "RemoteProtocolError"),
    "truncated": (ReadError, "RemoteProtocolError"),
    "empty_body": (ReadError, "RemoteProtocolError"),
    "body_corrupt": (ReadError, "DecodingError"),
}
LOST = (ReadError, "ReadError")


class Family:
    """One of the two packages."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._errors: dict[tuple[type, str], type[Any]] = {}
        self.SyncStream: Any = type("SyncStream", (_SyncStream, module.SyncByteStream), {})
        self.AsyncStream: Any = type("AsyncStream", (_AsyncStream, module.AsyncByteStream), {})

    def response(self, status: int, headers: Pairs, stream: Any, version: bytes) -> Any:
        """A response over a stream of this family."""
        return self.module.Response(status, headers=headers, stream=stream, extensions={"http_version": version})

    def whole(self, body: bytes) -> Any:
        """A stream, sync and async, of a body that is there."""
        return self.module.ByteStream(body)

    def error(self, ours: type[CallError], theirs: str, request: Any, **fields: Any) -> Any:
        """An error that is ours and the family's."""
        made = self._class(ours, theirs)(**fields)
        made.request = request
        return made

    def _class(self, ours: type[CallError], theirs: str) -> type[Any]:
        known = self._errors.get((ours, theirs))
        if known is None:
            parent = getattr(self.module, theirs)
            body: dict[str, Any] = {"__doc__": ours.__doc__, "__module__": __name__}
            body |= {"__reduce__": _reduce, "recipe": _recipe, "_made_of": (ours, theirs, self.module.__name__)}
            known = self._errors[ours, theirs] = type(theirs, (ours, parent), body)
        return known


_families: dict[str, Family] = {}


def family_of(request: Any) -> Family:
    """The family a request is of.

    Raises:
        ConfigError: it is of neither.
    """
    for cls in type(request).__mro__:
        name = cls.__module__.partition(".")[0]
        module = sys.modules.get(name)
        if hasattr(module, "SyncByteStream") and hasattr(module, "Response"):
            return _family(name, module)
    raise ConfigError("request", f"one of {type(request).__module__}", "a request of httpx or httpx2")


def _family(name: str, module: Any) -> Family:
    known = _families.get(name)
    if known is None:
        known = _families[name] = Family(module)
    return known


def _recipe(self: Any) -> tuple[type[CallError], str, dict[str, Any]]:
    """What ``Family.error`` makes the same error of, without the frames this one holds."""
    ours, theirs, _ = self._made_of
    return ours, theirs, self._fields()


def _reduce(self: Any) -> Any:
    """Pickled by what it is made of, because nobody can import its class."""
    ours, theirs, family = self._made_of
    _, (_, fields, extra) = ours.__reduce__(self)
    return _rebuild, (family, ours, theirs, fields, extra)


def _rebuild(family: str, ours: type[CallError], theirs: str, fields: dict[str, Any], extra: dict[str, Any]) -> Any:
    request = extra.pop("_request", None)
    error = _family(family, import_module(family)).error(ours, theirs, request, **fields)
    for name, value in extra.items():
        setattr(error, name, value)
    return error


class _SyncStream:
    """The body of an answer as it arrives."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._body.close()


class _AsyncStream:
    """The same for ``async``."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()  # type: ignore[no-any-return]  # what a body promises

    async def aclose(self) -> None:
        await self._body.aclose()
