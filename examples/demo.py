"""What steadycall does with what servers do: `make demo`, `steadycall demo`, or `python examples/demo.py`.

The scenarios and how they are shown are in `python/steadycall/cli/demo.py`.
"""

from steadycall.cli.demo import main

if __name__ == "__main__":
    main()
