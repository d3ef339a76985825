"""``python -m steadycall``: the same as the command ``steadycall``."""

import sys

from steadycall.cli import main

if __name__ == "__main__":
    sys.exit(main())
