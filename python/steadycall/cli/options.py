"""The fields of a policy as options of a command, and one way to refuse what makes no sense.

The defaults are asked of a policy, and stated nowhere here.
"""

from __future__ import annotations

from contextlib import contextmanager

import click

from steadycall import ConfigError, Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic to type checkers alone, before click 8.4

# What a command goes through one by one; more requests than this are no policy but a mistake.
MOST_REQUESTS = 200

# Parameters of the library that have another name here.
_NAMES = {
    "rows": "IN",
    "headers": "--header",
    "url": "--url or --base-url",
    "requests_per_minute": "--rpm",
    "tokens_per_minute": "--tpm",
}


class BadInput(click.ClickException):
    """What was read is not what the command is for."""

    exit_code = 4


class Backoff(ParamType):
    """``fixed:2``, ``exponential:0.5,10``, ``full_jitter:1,30`` or ``none``, as ``Policy.from_mapping`` takes it."""

    name = "backoff"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        made, _, numbers = str(value).partition(":")
        if not numbers:
            return made
        try:
            parts = [float(part) for part in numbers.split(",")]
        except ValueError:
            self.fail(f"must be {BACKOFFS}", param, ctx)
        return {made: parts[0] if len(parts) == 1 else parts}


class Statuses(ParamType):
    """Statuses with commas between them."""

    name = "statuses"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return {int(part) for part in str(value).split(",") if part.strip()}
        except ValueError:
            self.fail("must be statuses with commas between them, like 429,503", param, ctx)


BACKOFFS = "like fixed:2, exponential:0.5,10, full_jitter:1,30 or none"

_S = "S"  # how seconds are called where a value goes

_OPTIONS: dict[str, tuple[Any, str | None, str]] = {
    "tries": (int, "N", "Attempts in all, the first included."),
    "base": (float, _S, "Ceiling of the first random wait in seconds; it doubles from wait to wait."),
    "cap": (float, _S, "Ceiling of every such wait in seconds."),
    "max_wait": (float, _S, "Longest wait in seconds a server may ask for."),
    "deadline": (float, _S, "Seconds for everything, waits included."),
    "attempt_timeout": (float, _S, "Seconds one attempt may take."),
    "min_attempt": (float, _S, "With less than these seconds left no attempt is started."),
    "backoff": (Backoff(), "KIND", "fixed:S, exponential:BASE,CAP, full_jitter:BASE,CAP or none."),
    "validation_tries": (int, "N", "Answers that may fail their validation."),
    "max_requests": (int, "N", "Most requests one call may cost."),
    "hint_jitter": (float, "SHARE", "Largest share of a server's wait that is added to it by chance."),
    "retry_status": (Statuses(), "LIST", "The statuses to retry in place of the built-in table, like 429,503."),
}
_SWITCHES = {
    "retry_transport": "Do not retry faults of the transport.",
    "retry_maybe_processed": "Do not send again what may have reached the model.",
}


def policy_options(base: Policy) -> Callable[[F], F]:
    """Give a command the fields of a policy, with the defaults of ``base``; it gets them as keywords."""

    def given(command: F) -> F:
        for name, text in reversed(_SWITCHES.items()):
            command = click.option(f"--no-{dashed(name)}", f"no_{name}", is_flag=True, help=text)(command)
        for name, (kind, metavar, text) in reversed(_OPTIONS.items()):
            default = getattr(base, name)
            told = text if default in (None, 0.0) else f"{text}  [default: {default:g}]"
            command = click.option(f"--{dashed(name)}", type=kind, metavar=metavar, help=told)(command)
        return command

    return given


def policy_of(given: Mapping[str, Any], base: Policy, *, most_requests: int | None = None) -> Policy:
    """The policy that ``policy_options`` were given for; what was left out is that of ``base``.

    Raises:
        UsageError: a value that makes no sense, or more than ``most_requests`` for one call.
    """
    fields = {name: getattr(base, name) for name in _OPTIONS}
    if given["backoff"] is not None:
        del fields["base"], fields["cap"]  # of no use to another backoff
    fields |= {name: given[name] for name in _OPTIONS if given[name] is not None}
    fields |= {name: False for name in _SWITCHES if given[f"no_{name}"]}
    with refusing(backoff=given["backoff"] is not None and given["base"] is None and given["cap"] is None):
        policy = Policy.from_mapping(fields)
    if most_requests is not None and policy.worst_case().requests > most_requests:
        raise click.UsageError(f"the policy allows more than {most_requests} requests for one call")
    return policy


def dashed(name: str) -> str:
    """A parameter's name as an option's."""
    return name.replace("_", "-")


@contextmanager
def refusing(*, backoff: bool = False) -> Iterator[None]:
    """What the library refuses, as a wrong use of the command: the option's name, and what is allowed.

    Args:
        backoff: whether the numbers of a backoff, which the library knows by names of their own, are ``--backoff``'s.
    """
    try:
        yield
    except ConfigError as error:
        field, _, rest = str(error).partition(" ")
        if backoff and field.startswith("backoff"):
            rest = f"must be {BACKOFFS}"
        raise click.UsageError(f"{_named(field, backoff)} {rest}") from None


def _named(field: str, backoff: bool) -> str:
    """What a parameter is called on the command line; its own name where no option is called like that."""
    if field.startswith("backoff"):
        return "--backoff"
    if backoff and (field not in _OPTIONS or field in ("base", "cap")):
        return "a number of --backoff"
    if field in _NAMES:
        return _NAMES[field]
    context = click.get_current_context(silent=True)
    known = set() if context is None else {one.name for one in context.command.params}
    return f"--{dashed(field)}" if field in known or f"no_{field}" in known else field
