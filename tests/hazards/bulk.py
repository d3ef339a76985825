"""A bulk run to be killed: ``bulk.py ROWS OUTPUT BASE_URL [FIELD=JSON ...]``; prints its summary as JSON."""

from __future__ import annotations

import json
import sys

import steadycall

rows, output, base_url, *given = sys.argv[1:]
settings = {name: json.loads(value) for name, _, value in (field.partition("=") for field in given)}
policy = steadycall.Policy(tries=6, base=0.002, cap=0.01)
summary = steadycall.bulk(rows, output=output, base_url=base_url, policy=policy, **settings)
fields = ("answered", "failed", "earlier_answered", "earlier_failed", "left", "maybe_billed_twice", "requests")
print(json.dumps({name: getattr(summary, name) for name in fields}))
