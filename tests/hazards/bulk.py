"""A bulk run in a process of its own: ``bulk.py ROWS OUTPUT BASE_URL [FIELD=JSON ...]``; prints its summary as JSON.

``file_size`` is a limit of the system for the size of a file, in bytes: as good as a full disk.
"""

from __future__ import annotations

import json
import sys

import steadycall

rows, output, base_url, *given = sys.argv[1:]
settings = {name: json.loads(value) for name, _, value in (field.partition("=") for field in given)}
if "file_size" in settings:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (settings.pop("file_size"), resource.RLIM_INFINITY))
policy = steadycall.Policy(tries=6, base=0.002, cap=0.01)
try:
    summary = steadycall.bulk(rows, output=output, base_url=base_url, policy=policy, **settings)
except (OSError, KeyboardInterrupt) as error:
    print(json.dumps({"error": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}))
else:
    fields = ("answered", "failed", "earlier_answered", "earlier_failed", "left", "maybe_billed_twice", "requests")
    print(json.dumps({name: getattr(summary, name) for name in fields}))
