"""Headers of a run: those of the command line, and a key that never stands there."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, urlsplit

import click

from steadycall.cli.answer import NotHTTP, read_header

# Where providers look for a key, if it is not in Authorization.
KEY_HEADERS = {
    "api.anthropic.com": "x-api-key",
    "generativelanguage.googleapis.com": "x-goog-api-key",
    "openai.azure.com": "api-key",
    "cognitiveservices.azure.com": "api-key",
}
# Names of headers and of parts of a query that hold secrets: everyone on a machine can read its command lines.
SECRET = re.compile(r"key|token|secret|auth|cookie|password|^sig", re.I)
NO_SECRET = {"idempotency-key"}
# What is surely the name of a variable, and no key that was given in its place.
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def headers_of(given: tuple[str, ...], key_env: str | None, key_header: str | None, target: str) -> dict[str, str]:
    """All headers of a run.

    Raises:
        UsageError: a header is none or would be a key on the command line, or the environment holds no key.
    """
    found = {}
    for one in given:
        try:
            name, value = read_header(one)
        except NotHTTP as error:
            raise click.UsageError(f"--header: {error}") from None
        if is_secret(name):
            raise click.UsageError(f"--header {name}: a key must not stand on the command line; use --key-env")
        found[name] = value
    refuse_keys_in(target)
    if key_env is not None:
        name = key_header or header_at(target)
        key = key_in(key_env)
        found[name] = f"Bearer {key}" if name.lower() == "authorization" else key
    elif key_header is not None:
        raise click.UsageError("--key-header goes with --key-env")
    return found


def is_secret(name: str) -> bool:
    """Whether what goes by this name is likely to be a key."""
    return SECRET.search(name) is not None and name.lower() not in NO_SECRET


def refuse_keys_in(url: str) -> None:
    """A URL may hold one before its host or in its query.

    Raises:
        UsageError: it does, or it is no URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise click.UsageError(f"--url or --base-url: {error}") from None
    if parts.password or any(is_secret(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise click.UsageError("the URL holds a key, which must not stand on the command line; use --key-env")


def key_in(name: str) -> str:
    """The key that a variable of the environment holds; a line end that came along is none of it."""
    key = os.environ.get(name, "").strip()
    if not key:
        told = name if VARIABLE.fullmatch(name) else "variable of that name"
        raise click.UsageError(f"--key-env: the environment has no {told}, or it is empty; the key itself goes there")
    if not key.isascii() or not key.isprintable():
        raise click.UsageError(f"--key-env: {name} holds what no header can")
    return key


def header_at(target: str) -> str:
    host = urlsplit(target).hostname or ""
    return next(
        (name for known, name in KEY_HEADERS.items() if host == known or host.endswith(f".{known}")), "Authorization"
    )
