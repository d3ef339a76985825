"""A WSGI application that has made calls when it is imported, and makes one for each request."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import steadycall

URL = os.environ["ECHO_URL"]
IMPORTED_IN = os.getpid()

assert steadycall.call(URL, {"id": "preload"}) == {"id": "preload"}
assert asyncio.run(steadycall.acall(URL, {"id": "preload"})) == {"id": "preload"}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    number = environ["PATH_INFO"].strip("/")
    answer = steadycall.call(URL, {"id": number, "pid": os.getpid()})
    start_response("200 OK", [("content-type", "application/json")])
    return [json.dumps(answer | {"forked": os.getpid() != IMPORTED_IN}).encode()]
