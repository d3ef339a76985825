"""``steadycall bulk``: a file of rows through a provider, watched, stopped and gone on with."""

from __future__ import annotations

import json
import math
import os
import shlex
from contextlib import contextmanager
from pathlib import Path

import click

from steadycall import BulkRun, ConfigError, Error, RateLimit
from steadycall._bulk_settings import POLICY, Settings
from steadycall.cli import paint, screen
from steadycall.cli.keys import headers_of
from steadycall.cli.meter import Meter
from steadycall.cli.options import BadInput, policy_of, policy_options, refusing
from steadycall.cli.paint import times
from steadycall.cli.receipt import Prices, bad_lines, plan_data, planned, summary_data, summed
from steadycall.cli.stopping import Stopping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from steadycall import BulkSummary

SOME_FAILED, STOPPED, BAD_INPUT, ABORTED = 1, 3, 4, 130


class Amount(click.FloatRange):
    """A number that is one, without an end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return found


class File(click.Path):
    """A path; what is read or written only once is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("a run is resumed by its files, so it takes no pipe: give a file", param, ctx)
        return super().convert(value, param, ctx)


FILE = File(path_type=Path)
SECONDS = Amount(min=0, min_open=True)
PRICE = Amount(min=0)
COUNT = click.IntRange(min=1)
DEFAULTS = Settings.__init__.__kwdefaults__ or {}


@click.command("bulk")
@click.argument("rows", type=FILE, metavar="IN")
@click.option("-o", "--output", required=True, type=FILE, metavar="OUT", help="File of answers.")
@click.option("--failures", type=FILE, metavar="FILE", help="File of failures; else beside OUT.")
@click.option("--url", metavar="URL", help="Where all rows go; each line of IN is then a payload.")
@click.option("--base-url", metavar="URL", help="Where rows in the Batch format go; else OPENAI_BASE_URL.")
@click.option("--key-env", metavar="NAME", help="The variable of the environment that holds the key.")
@click.option("--key-header", metavar="NAME", help="The header for the key; else the provider's own, or Authorization.")
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header of every request.")
@click.option("--rpm", type=COUNT, metavar="N", help="Requests a minute; else as the first answers tell.")
@click.option("--tpm", type=COUNT, metavar="N", help="Tokens a minute; likewise.")
@click.option(
    "--concurrency", type=COUNT, metavar="N", help=f"Most requests in flight.  [default: {DEFAULTS['concurrency']}]"
)
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="S",
    help=f"Seconds of silence that end an attempt.  [default: {DEFAULTS['timeout']:g}]",
)
@click.option("--retry-failed", is_flag=True, help="Send again what failed in earlier runs.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and send and write nothing.")
@click.option("--price-in", type=PRICE, metavar="MONEY", help="Price of a million input tokens.")
@click.option("--price-out", type=PRICE, metavar="MONEY", help="Price of a million output tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary, or the plan, as one JSON object.")
@click.option(
    "--every",
    type=SECONDS,
    default=5.0,
    metavar="S",
    help="Seconds between lines of the log where stderr is no terminal.  [default: 5]",
)
@policy_options(POLICY)
@click.pass_context
def command(
    context: click.Context,
    /,
    rows: Path,
    output: Path,
    dry_run: bool,
    as_json: bool,
    every: float,
    price_in: float | None,
    price_out: float | None,
    **given: Any,
) -> int:
    """Send many rows: IN has one a line, in the OpenAI Batch format, or a payload each with --url.

    Ctrl-C finishes what is in flight, a second one stops at once; the same command goes on where it ended, and so it
    does after a kill. A key is read from the environment and never printed.

    \b
    Examples:
      steadycall bulk in.jsonl -o out.jsonl --base-url https://api.openai.com/v1 \\
        --key-env OPENAI_API_KEY --price-in 2.5 --price-out 10
      steadycall bulk in.jsonl -o out.jsonl --url http://localhost:8000/v1/chat/completions --dry-run

    Exit codes: 0 all answered, 1 some failed, 2 wrong use, 3 stopped early, 4 bad input, 130 second Ctrl-C.
    """
    prices = Prices(price_in, price_out)
    run, target = made(rows, output, given)
    if dry_run:
        with readable():
            plan = run.plan()
        told = paint.as_json(plan_data(plan, prices, target)) if as_json else planned(plan, str(rows), prices, target)
        click.echo(told)
        return 0
    summary = watched(run, screen.view(every), again(context.obj))
    click.echo(paint.as_json(summary_data(summary, prices)) if as_json else summed(summary, prices))
    code = exit_code(summary)
    if code == BAD_INPUT:
        click.echo(unfit(rows, given["url"] is None, summary.failures, f"{summary.output}.journal"), err=True)
    return code


def made(rows: Path, output: Path, given: dict[str, Any]) -> tuple[BulkRun, str]:
    """The run, not started, and where it sends.

    Raises:
        UsageError: options that make no sense, or not together.
    """
    url, base_url = given["url"], given["base_url"]
    if url is None and base_url is None:
        base_url = os.environ.get("OPENAI_BASE_URL") or None  # as the SDK, whose format it is
    target = url or base_url
    if target is None:
        raise click.UsageError("--base-url says where rows in the Batch format go, or --url where payloads go")
    settings: dict[str, Any] = {name: given[name] for name in ("concurrency", "timeout") if given[name] is not None}
    settings["headers"] = headers_of(given["headers"], given["key_env"], given["key_header"], target)
    settings["policy"] = policy_of(given, POLICY)
    with refusing():
        if given["rpm"] is not None or given["tpm"] is not None:
            settings["rate"] = RateLimit(given["rpm"], given["tpm"])
        more = {"failures": given["failures"], "retry_failed": given["retry_failed"]}
        return BulkRun(rows, output=output, url=url, base_url=base_url, **more, **settings), target


@contextmanager
def readable() -> Iterator[None]:
    """What is wrong with the files, as bad input: one line that names the file."""
    try:
        yield
    except (OSError, ConfigError) as error:
        raise BadInput(in_words(error)) from None


def watched(run: BulkRun, view: screen.Terminal | screen.Log, command: str) -> BulkSummary:
    """Run it to its end, shown as it goes.

    Raises:
        BadInput: it cannot begin.
        Cut: a file could not be written any more.
    """
    with readable():
        run.start()
    meter, told = Meter(), 0
    with run, Stopping(run) as stopping, view:
        while True:
            try:
                summary = run.wait(view.interval)
            except (OSError, Error) as error:
                raise Cut(f"{in_words(error)}; what is written is whole, to go on: {command}") from None
            if stopping.asked > told:
                told = min(stopping.asked, 2)
                view.say(saying(told, run.progress().in_flight, command))
            view.show(meter.read(run.progress()), last=summary is not None)
            if summary is not None:
                break
    if summary.left and told < 2:
        view.say(going_on(summary.left, command))
    return summary


def saying(asked: int, in_flight: int, command: str) -> str:
    """What is said to the first and to the second Ctrl-C."""
    if asked == 1:
        return f"finishing {in_flight:,} in flight; Ctrl-C again stops now" if in_flight else "stopping"
    return f"stopped now: what was in flight may have been billed; to go on: {command}"


def going_on(left: int, command: str) -> str:
    """What is said at the end of a run that leaves rows."""
    return f"{times(left, 'row')} {'is' if left == 1 else 'are'} left; to go on: {command}"


def in_words(error: Exception) -> str:
    """An error in one line; one of a file without its number, which says nothing to most."""
    named = isinstance(error, OSError) and error.filename is not None and error.strerror
    return f"{error.filename}: {error.strerror}" if named else str(error)  # type: ignore[attr-defined]  # of an OSError


def unfit(rows: Path, batch: bool, failures: str, journal: str) -> str:
    """What is said of an input no line of which can be sent."""
    if not batch:
        return f"no line of {rows} is a payload that can be sent; {failures} says of each what is wrong"
    told = f"no line of {rows} is a row in the Batch format; {failures} says of each what is wrong"
    if not looks_like_payloads(rows):
        return told
    return (
        f"{told}. Payloads go with --url: give it, and remove {failures} and {journal}, which say that this run is over"
    )


def looks_like_payloads(rows: Path) -> bool:
    """Whether the first line is an object without what makes a row of the Batch format."""
    with open(rows, "rb") as lines:
        first = next((line for line in lines if line.strip()), b"")
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and not {"custom_id", "body"} & found.keys()


class Cut(click.ClickException):
    """The run ended early for a fault of its surroundings."""

    exit_code = STOPPED


def again(arguments: object) -> str:
    """The command as it was given, to be given once more; it holds no key, and no value of a header."""
    if not isinstance(arguments, list):
        return "steadycall bulk ..."
    told = [shlex.quote(one) for one in without_headers(list(map(str, arguments)))]
    return " ".join(["steadycall", *told])


def without_headers(arguments: list[str]) -> Iterator[str]:
    """The arguments with dots, which are no header, in the place of each header: it may hold what is a secret."""
    left = iter(arguments)
    for one in left:
        if one == "--":
            yield one
            yield from left
        elif one in ("-H", "--header"):
            next(left, None)
            yield from (one, "...")
        elif one.startswith("--header=") or (one.startswith("-H") and one != "-H"):
            yield from ("-H", "...")
        else:
            yield one


def exit_code(summary: BulkSummary) -> int:
    """What became of it, for scripts."""
    if summary.stopped == "abort":
        return ABORTED
    if summary.left:
        return STOPPED
    if summary.rows and bad_lines(summary) == summary.rows:
        return BAD_INPUT
    return SOME_FAILED if summary.failed or summary.earlier_failed else 0
