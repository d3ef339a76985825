"""The streams of a client: the request of each attempt, by each route, behind the client's gates."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from . import _watch
from ._errors import Closed, ConfigError
from ._native import Exchange, _dumps, choices_of, gives_away, header_pairs, model_of, told_gates
from ._stream import StreamTimeout
from ._time import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ._client_base import Base
    from ._native import Passing, Run
    from ._stream import AsyncStream, Stream

    S = TypeVar("S", Stream, AsyncStream)

AT_LEAST = 1e-9
"""A handed-down deadline that has passed leaves no time, which no policy can be given."""


def open_stream(
    client: Base,
    cls: type[S],
    path: str,
    payload: Any,
    *,
    timeout: StreamTimeout | None,
    deadline: Any,
    tokens: int | None,
    partition: str | None,
    idempotency_key: str | None,
    headers: Any,
) -> S:
    """A stream of ``cls``, not begun."""
    if client._closed:
        raise Closed("this client was closed; make another one")
    if timeout is not None and not isinstance(timeout, StreamTimeout):
        raise ConfigError("timeout", repr(timeout), "a StreamTimeout, or None")
    tokens, partition = told_gates(tokens, partition)
    asked = _Asked(client, path, payload, tokens, partition, idempotency_key, headers)
    bound = client._bound()
    if deadline is not None:
        left = max(deadline.remaining(), AT_LEAST) if isinstance(deadline, Deadline) else deadline
        bound = bound.policy.replace(deadline=left).bind(**bound.hooks())
    url, host, _ = asked.place()
    others = [partial(asked.turn, number) for number in range(1, len(client._routes))]
    return cls(
        asked.make,
        bound,
        url=url,
        host=host,
        timeout=client._stream_timeout if timeout is None else timeout,
        choices=asked.choices,
        most_bytes=client._settings["max_response_bytes"],
        is_secret=asked.is_secret,
        admission=asked.admission,
        admit=asked.admit,
        tell=asked.tell,
        others=others,
    )


class _Asked:
    """What a stream asks for, by the route it is on."""

    def __init__(
        self,
        client: Base,
        path: str,
        payload: Any,
        tokens: int | None,
        partition: str,
        key: str | None,
        headers: Any,
    ) -> None:
        self._client = client
        self._path = path
        self._payload = payload
        self._tokens = tokens
        self._partition = partition
        self._key = key
        self._headers = headers
        self.admission = client._admission(client._front_class, client._front.sleep)
        self._sent: list[tuple[bytes, bytes]] = []
        self._number = 0
        self._read()

    def turn(self, number: int) -> tuple[str, str, int]:
        """Go on by another route."""
        self._number = number
        self._read()
        return self.place()

    def _read(self) -> None:
        client, number = self._client, self._number
        route = client._routes[number]
        self._url = route.url(self._path)
        payload = self._payload
        if number and route.transform is not None:
            payload = route.transform(payload)
        self._body = payload if isinstance(payload, bytes) else _dumps(payload)
        parts = urlsplit(self._url)
        self._host = parts.netloc
        self._url_path = parts.path
        self._shown_url = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self.choices = choices_of(self._body)
        self._model = model_of(parts.path, self._body)
        self._given = client._headers(route)
        # The call's own may hold the first provider's key.
        self._over = self._headers if not number or route.is_at(client._routes[0]) else None
        self._pairs(None if callable(self._given) else self._given)  # refused before anything is sent

    def place(self) -> tuple[str, str, int]:
        """URL without its query, host, and how many answers are asked for there."""
        return self._shown_url, self._host, self.choices

    def _pairs(self, given: Any) -> None:
        self._sent = header_pairs(given, self._over, self._key)

    def make(self) -> Any:
        """The exchange of the next attempt; to be awaited when the headers are."""
        if not callable(self._given):
            return self._exchange()
        made = self._given()
        return self._later(made) if hasattr(made, "__await__") else self._with(made)

    async def _later(self, made: Any) -> Exchange:
        return self._with(await made)

    def _with(self, made: Any) -> Exchange:
        self._pairs(made)
        return self._exchange()

    def _exchange(self) -> Exchange:
        settings = self._client._settings
        body = bytes(self._body)
        return Exchange(
            *("POST", self._url, self._sent, body, settings["timeout"], settings["proxy"], settings["ca_bundle"]),
            follows=True,
        )

    async def admit(self, run: Run, waits: Callable[[Passing], Any]) -> Passing | None:
        """Wait at the client's gates."""
        return await self.admission.admit(
            run,
            self._host,
            self._url_path,
            self._sent,
            bytes(self._body),
            partition=self._partition,
            tokens=self._tokens,
            tell=self.tell,
            waits=waits,
        )

    def is_secret(self, text: str) -> bool:
        """Whether a text of the server's gives a credential of the request away."""
        return gives_away(text, self._sent, self._url)

    def tell(self, **fields: Any) -> None:
        """Tell ``on_event``."""
        on_event: Callable[[Any], Any] | None = self._client._settings["on_event"]
        if on_event is not None:
            _watch.event(on_event, self._host, self._model, **fields)
