"""What every test may count on: no proxy between it and the loopback, and the same random examples in every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]
os.environ["NO_PROXY"] = "127.0.0.1,localhost"

# CI must fail for what a change did, not for the day's dice; at a desk new examples are welcome.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
