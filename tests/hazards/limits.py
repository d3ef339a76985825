"""Meets an answer that is too large, and prints what came of it. Arguments: a URL, and the call's options as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time

import steadycall


def peak() -> int:
    """Most MiB this process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


if __name__ == "__main__":
    url, options = sys.argv[1], json.loads(sys.argv[2])
    steadycall.call(f"{url}/small", {})
    before, began = peak(), time.monotonic()
    try:
        steadycall.call(url, {}, **options)
        raise AssertionError("two gigabytes were let in")
    except steadycall.ResponseError as error:
        took = time.monotonic() - began
        print(json.dumps({"why": error.why, "took": took, "grew": peak() - before, "tries": len(error.attempts)}))
