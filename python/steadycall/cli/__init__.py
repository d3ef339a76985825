"""The command ``steadycall``: what the library decides, on a command line.

Nothing else of the package imports this one. What it is made of comes with the extra ``cli``; only ``main`` and the
demo do without.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order in which they are told; the same as in the extra.
_NEEDED = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with ``arguments``, those of the process by default, and return its exit code."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(f"steadycall: the command needs {' and '.join(missing)}: pip install 'steadycall[cli]'", file=sys.stderr)
        return 2
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it lives as long as the process
    from steadycall.cli.app import run  # not before it is known that it can be loaded
    from steadycall.cli.unheard import Unheard

    stderr = sys.stderr
    sys.stderr = Unheard(stderr)
    try:
        return run(arguments)
    finally:
        sys.stderr.flush()
        sys.stderr = stderr
