"""The circuits of a client's breaker, to look at and to take in hand."""

from __future__ import annotations

from ._errors import ConfigError
from ._route import origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import Gates


class Circuit:
    """One circuit of a client; made by ``Client.circuit``."""

    __slots__ = ("_gates", "_key")

    def __init__(self, gates: Gates, base_url: str | None, host: str | None, model: str | None) -> None:
        if not gates.has_breaker:
            raise ConfigError("breaker", "None", "a CircuitBreaker, where circuits are asked for")
        for field, given in (("model", model), ("host", host)):
            if given is not None and not isinstance(given, str):
                raise ConfigError(field, repr(given), "a str, or None")
        if host is None:
            if base_url is None:
                raise ConfigError("host", "None", "given, where the client has no base_url")
            scheme, name, port = origin(base_url)
            host = f"{name}" if port == (443 if scheme == "https" else 80) else f"{name}:{port}"
        self._gates = gates
        self._key: str = host if model is None else f"{host} {model}"

    @property
    def state(self) -> str:
        """``"closed"``, ``"open"``, ``"half_open"``, ``"forced_open"`` or ``"forced_closed"``."""
        return self._found()[0]

    @property
    def retry_after(self) -> float | None:
        """Seconds until an open one is probed; ``None`` for every other."""
        return self._found()[1]

    def force_open(self) -> None:
        """Let nothing through until told otherwise."""
        self._gates.hold(self._key, "open")

    def force_closed(self) -> None:
        """Let everything through, whatever comes of it, until told otherwise."""
        self._gates.hold(self._key, "closed")

    def release(self) -> None:
        """Let it judge for itself again, beginning closed."""
        self._gates.hold(self._key, "released")

    def _found(self) -> tuple[str, float | None]:
        return self._gates.circuits().get(self._key, ("closed", None))

    def __repr__(self) -> str:
        return f"<Circuit {self._key}: {self.state}>"


def circuits(gates: Gates) -> dict[tuple[str, str | None], str]:
    """The state of every circuit, by host and model."""
    found = {}
    for key, (state, _) in gates.circuits().items():
        host, space, model = key.partition(" ")
        found[host, model if space else None] = state
    return found
