"""A gRPC status as the core reads one: as the JSON error that Google's REST answers carry for the same status.

The details stand in the trailing metadata as protocol buffers. Four messages of ``google.rpc`` matter, and they are
read here by field number, because importing ``protobuf`` is the caller's business.
"""

from __future__ import annotations

import json

from ._chain import attribute
from ._finding import Finding, answer, changed, fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ._finding import Table

    Fields = dict[int, list[int | bytes]]

# As google/rpc/code.proto maps them; but what exists already is there for good, so it is no passing conflict.
STATUSES = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 400,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
}


def of_rpc(exc: Any) -> Finding | None:
    """An ``RpcError``: its code, message and details. ``status`` stays empty, for there was no HTTP status."""
    name = attribute(called(exc, "code"), "name")
    if name not in STATUSES:
        return None
    status = STATUSES[name]
    trailers = list(metadata(called(exc, "trailing_metadata")))
    error = {"code": status, "status": name, "message": str(called(exc, "details") or ""), "details": details(trailers)}
    found = answer(status, headers(trailers), json.dumps({"error": error}))
    if found is not None:
        found.failure = changed(found.failure, status=None)
    return found


def called(exc: Any, name: str) -> Any:
    """What a method of the finished call gives: grpc keeps its facts behind methods."""
    try:
        return attribute(exc, name)()
    except Exception:
        return None


def metadata(trailers: Any) -> Iterator[tuple[str, str | bytes]]:
    """Trailing metadata as pairs, of the sync and the async kind."""
    try:
        for key, value in trailers or ():
            if isinstance(key, str) and isinstance(value, (str, bytes)):
                yield key, value
    except Exception:
        return


def headers(trailers: list[tuple[str, str | bytes]]) -> list[tuple[str, str]]:
    """Text metadata as headers, a server's pushback (gRFC A6) among them: a wait, or anything else for "never"."""
    found = [(key, value) for key, value in trailers if isinstance(value, str)]
    for key, value in found[:]:
        if key == "grpc-retry-pushback-ms":
            found.append(("retry-after-ms", value) if value.isdecimal() else ("x-should-retry", "false"))
    return found


def details(trailers: list[tuple[str, str | bytes]]) -> list[dict[str, Any]]:
    """The details of ``google.rpc.Status`` (field 3, each an ``Any``) as their JSON."""
    found = []
    for key, value in trailers:
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            for packed in fields(value).get(3, []):
                inner = fields(packed)
                kind = word(inner, 1).rpartition("/")[2]
                if kind in MESSAGES and isinstance(content := first(inner, 2), bytes):
                    found.append({"@type": f"type.googleapis.com/{kind}", **MESSAGES[kind](fields(content))})
    return found


def retry_info(message: Fields) -> dict[str, Any]:
    delay = first(message, 1)
    parts = fields(delay) if isinstance(delay, bytes) else {}
    seconds, nanos = first(parts, 1) or 0, first(parts, 2) or 0
    return {"retryDelay": f"{seconds}.{nanos:09d}s"} if isinstance(seconds, int) and isinstance(nanos, int) else {}


def quota_failure(message: Fields) -> dict[str, Any]:
    names = {1: "subject", 2: "description", 3: "apiService", 4: "quotaMetric", 5: "quotaId"}
    violations = []
    for packed in message.get(1, []):
        inner = fields(packed)
        told = {name: word(inner, number) for number, name in names.items() if number in inner}
        if 7 in inner:
            told["quotaValue"] = str(first(inner, 7))
        violations.append(told)
    return {"violations": violations}


def error_info(message: Fields) -> dict[str, Any]:
    entries = [fields(packed) for packed in message.get(3, [])]
    told = {word(entry, 1): word(entry, 2) for entry in entries}
    return {"reason": word(message, 1), "domain": word(message, 2), "metadata": told}


def localized(message: Fields) -> dict[str, Any]:
    return {"message": word(message, 2)}


MESSAGES = {
    "google.rpc.RetryInfo": retry_info,
    "google.rpc.QuotaFailure": quota_failure,
    "google.rpc.ErrorInfo": error_info,
    "google.rpc.LocalizedMessage": localized,
}

# Protocol buffers on the wire


def fields(message: Any) -> Fields:
    """Field numbers to their values in order, numbers or bytes; what is malformed ends the reading."""
    found: Fields = {}
    position = 0
    try:
        while position < len(message):
            key, position = varint(message, position)
            value: int | bytes
            match key & 7:
                case 0:
                    value, position = varint(message, position)
                case 2:
                    length, position = varint(message, position)
                    value, position = message[position : position + length], position + length
                case 1 | 5 as wire:
                    length = 8 if wire == 1 else 4
                    value, position = message[position : position + length], position + length
                case _:
                    return found
            found.setdefault(key >> 3, []).append(value)
    except (IndexError, TypeError):
        pass
    return found


def varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return number, position


def first(message: Fields, number: int) -> int | bytes | None:
    return next(iter(message.get(number, [])), None)


def word(message: Fields, number: int) -> str:
    value = first(message, number)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


GRPC: Table = {
    "RpcError": of_rpc,
    "FutureTimeoutError": fault("connect_timeout", "no"),
}
