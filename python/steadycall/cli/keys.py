"""Headers of a run: those of the command line, and a key that never stands there."""

from __future__ import annotations

import os
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
# Headers and parts of a query that hold secrets: everyone on a machine can read its command lines.
SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie", *KEY_HEADERS.values()}
SECRET_QUERY = {"key", "api_key", "api-key", "apikey", "access_token", "token", "sig"}


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
        if name.lower() in SECRET_HEADERS:
            raise click.UsageError(f"--header {name}: a key must not stand on the command line; use --key-env")
        found[name] = value
    if any(name.lower() in SECRET_QUERY for name, _ in parse_qsl(urlsplit(target).query, keep_blank_values=True)):
        raise click.UsageError("the URL holds a key, which must not stand on the command line; use --key-env")
    if key_env is not None:
        name = key_header or header_at(target)
        key = key_in(key_env)
        found[name] = f"Bearer {key}" if name.lower() == "authorization" else key
    elif key_header is not None:
        raise click.UsageError("--key-header goes with --key-env")
    return found


def key_in(name: str) -> str:
    """The key that a variable of the environment holds; a line end that came along is none of it."""
    key = os.environ.get(name, "").strip()
    if not key:
        raise click.UsageError(f"--key-env: the environment has no {name}, or it is empty")
    if not key.isascii() or not key.isprintable():
        raise click.UsageError(f"--key-env: {name} holds what no header can")
    return key


def header_at(target: str) -> str:
    host = urlsplit(target).hostname or ""
    return next(
        (name for known, name in KEY_HEADERS.items() if host == known or host.endswith(f".{known}")), "Authorization"
    )
