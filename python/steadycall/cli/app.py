"""The commands, and what is the same for all: help with an example, errors of one line, exit codes."""

from __future__ import annotations

import os
import sys

import click

import steadycall
from steadycall.cli import bulk, classify, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, USAGE, INTERRUPTED = 1, 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(steadycall.__version__, message="%(prog)s %(version)s")
def app() -> None:
    """Calls to LLM HTTP APIs that end well.

    \b
    Examples:
      steadycall demo
      curl -si https://... | steadycall classify --url https://...
      steadycall explain --tries 3 --attempt-timeout 15 --within 120
    """


@app.command()
def demo() -> None:
    """Show what the library does with a server that fails on purpose.

    The server is on this machine, nothing leaves it, and waits are not slept: it takes a few seconds.

    \b
    Example:
      steadycall demo | less
    """
    from steadycall.cli import demo as played  # a server and an event loop, which no other command needs

    played.main()


app.add_command(bulk.command)
app.add_command(classify.command)
app.add_command(explain.command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; what goes wrong is told in one line."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # The arguments go along as they are, for a command that says how to go on.
        code = app.main(given, prog_name="steadycall", standalone_mode=False, obj=given)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        return told(error.format_message(), USAGE)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = "steadycall" if context is None else context.command_path
        more = f" (see {command} --help)" if isinstance(error, click.UsageError) else ""
        return told(f"{command}: {' '.join(error.format_message().split())}{more}", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return told("steadycall: interrupted", INTERRUPTED)
    except steadycall.Error as error:
        return told(f"steadycall: {' '.join(str(error).split())}", USAGE)
    except ArithmeticError as error:
        return told(f"steadycall: a number is too large ({error})", USAGE)
    except BrokenPipeError:
        drop_output()  # who reads has enough
        return FAILED
    except OSError as error:
        drop_output()
        return told(f"steadycall: {error}", FAILED)


def told(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def drop_output() -> None:
    """What could not be written must not be tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
