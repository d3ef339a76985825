"""``wrap``: a copy of an SDK's client that sends over a transport of ours and never starts again by itself.

No SDK is imported: a client is known by the names its class and module say they have, and is asked to copy itself.
"""

from __future__ import annotations

import sys

from ._errors import ConfigError
from ._transport import AsyncTransport, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ._client_base import Base
    from ._operation import BoundPolicy
    from ._policy import Policy

    Client = TypeVar("Client")

_GENERATED = ("SyncAPIClient", "AsyncAPIClient")
KNOWN = "a client of openai, anthropic, groq, google-genai (genai.Client) or mistralai"


def wrap(client: Client, policy: Policy | BoundPolicy | Base | None = None, **options: Any) -> Client:
    """A copy of an SDK's client whose requests are retried by a policy, and by nothing else.

    Keys, base URL, headers and timeouts are the client's own. Its HTTP client is not: proxies, certificates and hooks
    that were set on it are given here instead.

    Args:
        client: of openai, anthropic or groq, sync or async, with their variants for other clouds; a ``Client`` of
            google-genai (both of its sides are wrapped); a ``Mistral`` of mistralai (likewise).
        policy: a ``Policy``, or what its ``bind`` gave; ``None`` is the default policy. A steadycall ``Client`` or
            ``AsyncClient`` puts the SDK behind its gates; its ``fallback``, ``headers``, timeouts and ``proxy`` are
            for its own calls alone.
        options: as for ``Transport``.

    Returns:
        A new client of the same class; the old one is unchanged.

    Raises:
        ConfigError: no client of a known SDK, or an option that makes no sense.
    """
    for cls in type(client).__mro__:
        for package, name, copy in COPIES:
            if cls.__name__ == name and f"{cls.__module__}.".startswith(f"{package}."):
                return copy(client, policy, options)  # type: ignore[no-any-return]  # each gives what it was given
    raise ConfigError("client", f"{type(client).__module__}.{type(client).__qualname__}", KNOWN)


def stainless(client: Any, policy: Any, options: Any) -> Any:
    """openai, anthropic and groq copy themselves, with another HTTP client and no retries."""
    family = family_below(client._client)
    http_client: Any
    if isinstance(client._client, family.AsyncClient):
        http_client = family.AsyncClient(transport=AsyncTransport(policy, **options), **settings(client))
    else:
        http_client = family.Client(transport=Transport(policy, **options), **settings(client))
    return client.copy(http_client=http_client, max_retries=0)


def settings(client: Any) -> dict[str, Any]:
    """What an HTTP client of ours has in common with the SDK's own."""
    return {"base_url": client.base_url, "timeout": client.timeout, "follow_redirects": True}


def genai(client: Any, policy: Any, options: Any) -> Any:
    """google-genai makes its HTTP clients from options; one attempt is none of its own retries."""
    api = client._api_client
    given = api._http_options
    retries = type(given).model_fields["retry_options"].annotation
    once = next(kind for kind in retries.__args__ if kind is not type(None))(attempts=1)
    changed = given.model_copy(
        update={
            "client_args": {**(given.client_args or {}), "transport": Transport(policy, **options)},
            "async_client_args": {**(given.async_client_args or {}), "transport": AsyncTransport(policy, **options)},
            "retry_options": once,
            "httpx_client": None,
            "httpx_async_client": None,
        }
    )
    return type(client)(
        vertexai=api.vertexai,
        api_key=api.api_key,
        credentials=api._credentials,
        project=api.project,
        location=api.location,
        debug_config=client._debug_config,
        http_options=changed,
    )


def mistral(client: Any, policy: Any, options: Any) -> Any:
    """mistralai is given both HTTP clients; its retries are off where nobody asked for them."""
    old = client.sdk_configuration
    family = family_below(old.client)
    copy = type(client)(
        server=old.server,
        server_url=old.server_url,
        client=family.Client(transport=Transport(policy, **options), follow_redirects=True),
        async_client=family.AsyncClient(transport=AsyncTransport(policy, **options), follow_redirects=True),
        timeout_ms=old.timeout_ms,
        debug_logger=old.debug_logger,
    )
    copy.sdk_configuration.security = old.security
    return copy


def family_below(http_client: object) -> Any:
    """httpx or httpx2: whichever an HTTP client is of."""
    for cls in type(http_client).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    raise ConfigError("client", f"one over {type(http_client).__module__}", "a client over httpx or httpx2")


# The package, a class that all its clients descend from, and how they are copied.
COPIES: list[tuple[str, str, Any]] = [
    *((package, name, stainless) for package in ("openai", "anthropic", "groq") for name in _GENERATED),
    ("google.genai", "Client", genai),
    ("mistralai", "Mistral", mistral),
]
