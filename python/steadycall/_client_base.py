"""What ``Client`` and ``AsyncClient`` have in common: their settings, and the loop of one call.

The core decides on attempts and on who may go; the native call waits, sends and judges. Here is what only Python can
do: ask for headers, sleep, validate, and turn to the next route. Written once: the async front waits where the
blocking one blocks.
"""

from __future__ import annotations

from . import _usage, _watch  # noqa: F401  # for the native call: nothing is loaded during one
from ._admission import Admission, Life
from ._call import MAX_RESPONSE_BYTES
from ._circuits import Circuit, circuits
from ._errors import CallError, Closed, ConfigError
from ._fields import plain_seconds
from ._front import Blocking, OutOfTime
from ._hooks import AWAITED, code_flags, draws
from ._judge import asked, judge_validator, verdict
from ._kinds import FailureKind
from ._limits import CircuitBreaker, ConcurrencyLimit, RateLimit, RetryBudget, TokenBudget
from ._native import PENDING, Caller, Gates, HttpCall
from ._operation import BoundPolicy
from ._policy import Policy
from ._reply import Reply
from ._route import Route
from ._scope import around
from ._stream import StreamTimeout
from ._time import read_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any, Self

    from ._call import Headers
    from ._hooks import Rng, Sleep
    from ._records import AttemptRecord, CallRecord, Event
    from ._time import Clock, Seconds, Timeout

    MakeHeaders = Callable[[], Headers]
    Options = tuple[Any, ...]

_LIMITS: dict[str, type] = {
    "concurrency": ConcurrencyLimit,
    "rate": RateLimit,
    "token_budget": TokenBudget,
    "breaker": CircuitBreaker,
    "retry_budget": RetryBudget,
}


URLS_KEPT = 100
"""Paths whose URLs a client remembers: a service asks the same few all day."""


class Base:
    _front_class: type[Blocking] = Blocking

    def __init__(
        self,
        base_url: str | None = None,
        *,
        policy: Policy | BoundPolicy | None = None,
        concurrency: ConcurrencyLimit | int | None = None,
        rate: RateLimit | None = None,
        token_budget: TokenBudget | None = None,
        breaker: CircuitBreaker | None = None,
        retry_budget: RetryBudget | None = RetryBudget(),  # noqa: B008 - a frozen value
        timeout: Seconds | Timeout | None = 30.0,
        headers: Headers | MakeHeaders | None = None,
        stream_timeout: StreamTimeout = StreamTimeout(),  # noqa: B008 - a frozen value
        fallback: Sequence[Route] = (),
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        proxy: str | None = None,
        ca_bundle: str | PathLike[str] | None = None,
        on_retry: Callable[[AttemptRecord], Any] | None = None,
        on_end: Callable[[CallRecord], Any] | None = None,
        on_event: Callable[[Event], Any] | None = None,
        sleep: Sleep | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        _gates: Gates | None = None,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "_gates")}
        self._life = Life()
        bound = policy if isinstance(policy, BoundPolicy) else None
        if policy is not None and not isinstance(policy, (Policy, BoundPolicy)):
            raise ConfigError("policy", repr(policy), "a Policy, what Policy.bind gave, or None")
        plain = bound.policy if bound is not None else policy or Policy(hint_jitter=0.1)
        hooks: dict[str, Any] = {} if bound is None else bound.hooks()
        self.policy: Policy = plain  # type: ignore[assignment]  # a bound one was unpacked
        """How failures are retried."""
        self._validate = hooks.get("validate")
        sleep = hooks.get("sleep") if sleep is None else sleep
        clock = hooks.get("clock") if clock is None else clock
        rng = hooks.get("rng") if rng is None else rng
        now = None if clock is None else read_clock(clock)
        on_retry = hooks.get("on_retry") if on_retry is None else on_retry
        on_end = hooks.get("on_end") if on_end is None else on_end
        self._hooks: dict[str, Any] = {
            "sleep": sleep,
            "clock": clock,
            "rng": rng,
            "on_retry": on_retry,
            "on_end": on_end,
        }
        self._draw = None if rng is None else draws(rng)
        if isinstance(concurrency, int) and not isinstance(concurrency, bool):
            concurrency = ConcurrencyLimit(concurrency)
        limits = {"concurrency": concurrency, "rate": rate, "token_budget": token_budget, "breaker": breaker}
        self._gates = _gates or Gates(read_limits(limits | {"retry_budget": retry_budget}), self.policy._checked, now)
        if not isinstance(stream_timeout, StreamTimeout):
            raise ConfigError("stream_timeout", repr(stream_timeout), "a StreamTimeout")
        self._stream_timeout = stream_timeout
        self._front = self._front_class(sleep)
        self._told_time = now is not None
        self._urls: dict[str, str] = {}
        self._routes = [Route(base_url, headers), *read_routes(fallback)]
        if base_url is None and len(self._routes) > 1:
            raise ConfigError("fallback", repr(fallback), "left out, where the client has no base_url")
        self._callers = [
            Caller(
                *(self._gates, self.policy._checked, None if callable(made := self._headers(route)) else made),
                *(timeout, max_response_bytes, proxy, ca_bundle),
                *(on_retry, on_end, on_event, self._draw),
            )
            for route in self._routes
        ]
        for caller, route in zip(self._callers, self._routes, strict=True):
            if route.base_url is not None:
                caller.check(route.base_url)  # a proxy or certificates that cannot be used are told of now

    def with_options(self, **changes: Any) -> Self:
        """A client with other settings that shares this one's gates: its limits, its breaker and its budgets.

        Args:
            changes: what the class takes, but for the limits and ``clock``, which belong to the gates. ``policy`` may
                be replaced; ``policy=client.policy.replace(tries=2)`` changes a field.

        Raises:
            ConfigError: a value that makes no sense, or one that belongs to the gates.
        """
        for name in (*_LIMITS, "clock"):
            if name in changes:
                raise ConfigError(
                    name, repr(changes[name]), "left out: it belongs to the gates that both clients share"
                )
        other = type(self)(**{**self._settings, **changes}, _gates=self._gates)
        other._life = self._life
        return other

    @property
    def in_flight(self) -> int | None:
        """Calls in flight; ``None`` where ``concurrency`` does not limit them."""
        return self._gates.in_flight

    @property
    def waiting(self) -> int:
        """Calls that wait to be let through."""
        return self._gates.waiting

    @property
    def circuits(self) -> dict[tuple[str, str | None], str]:
        """The state of every circuit used so far, by host and model; the model is ``None`` for the host's own."""
        return circuits(self._gates)

    def circuit(self, model: str | None = None, *, host: str | None = None) -> Circuit:
        """One circuit, to look at, to force open or closed, and to release.

        Args:
            model: whose; ``None`` is the host's own, which counts faults of connections.
            host: host and port; ``None`` is that of ``base_url``.

        Raises:
            ConfigError: the client has no breaker, or neither it nor the call names a host.
        """
        return Circuit(self._gates, self._routes[0].base_url, host, model)

    def _headers(self, route: Route) -> Any:
        """What a route sends: its own headers, or the client's where it has none and leads to the same origin."""
        home = self._routes[0]
        if route is home or not route.is_at(home) or home.headers is None:
            return route.headers
        return home.headers if route.headers is None else route.headers

    def _open(self, method: str, path: str, payload: tuple[Any] | None, validate: Any, options: Options) -> HttpCall:
        """A call's request by the client's own route; ``options`` as ``Caller.begin`` has them."""
        if self._closed:
            raise Closed("this client was closed; make another one")
        if validate is not None:
            if not callable(validate):
                raise ConfigError("validate", repr(validate), "a callable that takes the answer, or None")
            if not self._front.may_await and code_flags(validate) & AWAITED:
                allowed = "a plain callable (a coroutine function needs AsyncClient)"
                raise ConfigError("validate", "a coroutine function", allowed)
        url = self._urls.get(path) if isinstance(path, str) else None
        if url is None:
            url = self._routes[0].url(path)
            if len(self._urls) < URLS_KEPT:
                self._urls[path] = url
            for route in self._routes[1:]:
                route.url(path)  # refused now, and not when it is needed
        lends_sleep = self._told_time or self._front.lends_sleep
        deadline, tokens, partition, key, headers = options
        return self._callers[0].begin(
            *(method, url, payload, deadline, tokens, partition, key, headers),
            *(around(), validate is not None, lends_sleep),
        )

    def _elsewhere(self, number: int, method: str, path: str, payload: tuple[Any] | None, options: Any) -> HttpCall:
        """The same request by another route."""
        route = self._routes[number]
        if payload is not None and route.transform is not None:
            payload = (route.transform(payload[0]),)
            if payload[0] is None:
                raise ConfigError("transform", "None from it", "a callable that gives the payload for its route")
        deadline, tokens, partition, key, headers = options
        if not route.is_at(self._routes[0]):
            headers = None  # they may hold the first provider's key
        return self._callers[number].begin(
            method, route.url(path), payload, deadline, tokens, partition, key, headers, around(), False, False
        )

    async def _call(self, method: str, path: str, payload: tuple[Any] | None, validate: Any, *options: Any) -> Reply:
        """One call, whatever it takes."""
        validate = self._validate if validate is None else validate
        one = self._open(method, path, payload, validate, options)
        one.allow_routes(len(self._routes) - 1)
        number = 0
        make_headers = self._made(0)
        try:
            while True:
                if make_headers is not None and one.begins:
                    await self._ask_headers(one, make_headers)
                answer = await self._front.attempt(one)
                if answer is not PENDING:
                    value = answer if validate is None else await self._checked(one, validate, answer)
                    if value is not PENDING:
                        return Reply(one.answer(), value, self._routes[number])
                elif self.policy.retry_if is not None and one.failed and one.failure is not None:
                    one.reconsider(asked(self.policy.retry_if, one.failure, one.error()))
                wait = one.decide()
                if wait is not None:
                    await self._front.pause(one, wait)
                elif one.rerouting:
                    number += 1
                    self._reroute(one, number, method, path, payload, options)
                    make_headers = self._made(number)
        except BaseException:
            one.abort()
            raise

    async def _ask_headers(self, one: HttpCall, make_headers: Any) -> None:
        """Ask the callable that gives the headers of the next attempt.

        Raises:
            DeadlineExceeded: it took longer than the deadline allows.
        """
        try:
            one.set_headers(await self._front.finished("headers", make_headers(), one.remaining))
        except OutOfTime:
            one.expire()

    def _reroute(self, one: HttpCall, number: int, method: str, path: str, payload: Any, options: Any) -> None:
        """Go on by another route.

        Raises:
            Exception: its request cannot be made; behind it stands what the route before ended with.
        """
        try:
            other = self._elsewhere(number, method, path, payload, options)
        except Exception as error:
            try:
                one.stay()
            except CallError as ended:
                raise error from ended
            raise
        one.reroute(other)

    def _made(self, number: int) -> Any:
        """The callable that gives a route's headers, if one does."""
        headers = self._headers(self._routes[number])
        return headers if callable(headers) else None

    async def _checked(self, one: HttpCall, validate: Any, answer: Any) -> Any:
        """The answer after its validation, or ``PENDING`` when it failed and another may follow.

        Raises:
            Exception: the validator says that no other answer would do, or failed itself.
        """
        try:
            value = verdict(answer, await self._front.finished("validate", validate(answer), one.remaining))
        except OutOfTime:
            one.accept(answer)  # which says that it is late
            raise
        except (Exception, BaseExceptionGroup) as error:
            judged = judge_validator(error)
            one.reject(judged, error)
            if judged.kind == FailureKind.VALIDATION:
                return PENDING
            raised = error
        else:
            one.accept(value)
            return value
        try:
            one.decide()
        except CallError as ended:
            raised.add_note(f"steadycall: {ended.why}")
        raise raised

    def _bound(self) -> BoundPolicy:
        """The client's policy and hooks, for requests that others send."""
        return self.policy.bind(**self._hooks)

    def _admission(self, front: type[Blocking], sleep: Sleep | None = None) -> Admission:
        """The client's gates, for the same."""
        return Admission(
            self._gates,
            front(self._hooks["sleep"] if sleep is None else sleep),
            told_time=self._told_time,
            max_wait=plain_seconds(self.policy.max_wait),
            draw=self._draw,
            on_event=self._settings["on_event"],
            life=self._life,
        )

    @property
    def _closed(self) -> bool:
        return self._life.over

    def _close(self) -> None:
        self._life.over = True

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<{type(self).__name__} {state}: {self._routes[0]!r}>"


def read_limits(limits: dict[str, Any]) -> list[Any]:
    """The checked side of each limit that was given."""
    for name, limit in limits.items():
        if limit is not None and not isinstance(limit, _LIMITS[name]):
            raise ConfigError(name, repr(limit), f"a {_LIMITS[name].__name__}, or None")
    return [limit._checked for limit in limits.values() if limit is not None]


def read_routes(fallback: Any) -> list[Route]:
    """Other routes, checked."""
    routes = list(fallback) if isinstance(fallback, (list, tuple)) else [fallback]
    for route in routes:
        if not isinstance(route, Route) or route.base_url is None:
            raise ConfigError("fallback", repr(route), "a list of Route, each with a base_url")
    return routes
