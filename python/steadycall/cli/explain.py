"""``steadycall explain``: what a policy may cost, as figures, a table, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import click

from steadycall import Policy
from steadycall.cli import paint
from steadycall.cli.latencies import BadLine, Latencies, read_latencies, text_of
from steadycall.cli.options import MOST_REQUESTS, BadInput, policy_of, policy_options, refusing
from steadycall.cli.picture import drawn
from steadycall.cli.plan import Plan, plan_of
from steadycall.cli.svg import svg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOO_LONG = 1

# Each is on the line of time; more than this are no chain but a mistake.
MOST_CHAINS = 10_000


@click.command("explain")
@click.option("--within", type=float, metavar="S", help="Seconds there are; exit code 1 says that it does not fit.")
@click.option("--chains", type=int, default=1, metavar="N", help="Calls that follow one another.  [default: 1]")
@click.option("--latencies", type=click.File("rb"), metavar="FILE", help="Seconds that calls took, one a line.")
@click.option("--key", metavar="NAME", help="The field that holds them, where a line is a JSON object.")
@click.option(
    "--svg", "picture", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it there."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@policy_options(Policy())
def command(
    within: float | None,
    chains: int,
    latencies: BinaryIO | None,
    key: str | None,
    picture: Path | None,
    as_json: bool,
    **fields: Any,
) -> int:
    """Show what a policy may cost at the worst, its waits, and its attempts on a line of time.

    The options are the fields of a Policy. With --latencies the attempt timeout is compared with what calls took:
    a file of numbers, or of JSON lines with such a number in "elapsed", "seconds", "latency" or "duration".

    \b
    Examples:
      steadycall explain --tries 3 --attempt-timeout 15 --max-wait 10 --within 120 --chains 2
      steadycall explain --attempt-timeout 20 --latencies latencies.txt --svg policy.svg
    """
    if chains > MOST_CHAINS:
        raise click.UsageError(f"--chains must be at most {MOST_CHAINS}, got {chains}")
    policy = policy_of(fields, Policy(), most_requests=MOST_REQUESTS)
    with refusing():
        plan = plan_of(policy, chains=chains, within=within)
    found = None
    if latencies is not None:
        try:
            found = read_latencies(text_of(latencies.read()), key=key, timeout=fields["attempt_timeout"])
        except (BadLine, UnicodeDecodeError) as error:
            raise BadInput(f"{latencies.name}: {error}") from None
    elif key is not None:
        raise click.UsageError("--key goes with --latencies")
    if picture is not None:
        try:
            picture.write_text(svg(plan), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(picture), error.strerror) from None
    click.echo(paint.as_json(as_data(plan, found)) if as_json else drawn(plan, found))
    return TOO_LONG if plan.budget is not None and not plan.budget.fits else 0


def as_data(plan: Plan, latencies: Latencies | None) -> dict[str, Any]:
    """The same for programs."""
    budget, worst = plan.budget, plan.worst
    return {
        "policy": repr(plan.policy),
        "chains": plan.chains,
        "worst_case": {"seconds": worst.seconds, "requests": worst.requests, "longest_wait": worst.longest_wait},
        "without_hints": {"seconds": plan.unasked.seconds},
        "within": None
        if budget is None
        else {"seconds": budget.within, "fits": budget.fits} | {"max_attempt_timeout": budget.most},
        "waits": [vars(wait) for wait in plan.waits],
        "line": [vars(bar) for bar in plan.line],
        "ends_because": plan.because,
        "latencies": None if latencies is None else vars(latencies),
    }
