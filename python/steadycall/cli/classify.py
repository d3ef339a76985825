"""``steadycall classify``: an HTTP answer in, the judgement and what a policy would do with it out."""

from __future__ import annotations

import io
import sys
import urllib.error
from typing import BinaryIO

import click

import steadycall
from steadycall import Policy
from steadycall.cli import paint
from steadycall.cli.answer import Answer, NotHTTP, looks_like_one, read_answer, read_header
from steadycall.cli.options import MOST_REQUESTS, BadInput, policy_of, policy_options, refusing
from steadycall.cli.rehearsal import LEAST, MOST, Rehearsal, rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MEANINGS = {
    "call": "the call itself went wrong; a wait may mend it",
    "rate_limited": "too fast for the provider; a wait mends it",
    "permanent": "no retry can mend it",
    "validation": "an answer came and is not good enough; another one may be",
}


@click.command("classify")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--status", type=int, metavar="N", help="The status of a bare body: then no header block is looked for.")
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header of a bare body.")
@click.option("--url", metavar="URL", help="Where it came from; tells the provider. It is never printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@policy_options(Policy())
def command(
    file: BinaryIO, status: int | None, headers: tuple[str, ...], url: str | None, as_json: bool, **fields: Any
) -> None:
    """Judge an HTTP answer: what kind of failure it is, the wait it asks for, and what a policy would do.

    FILE is a whole answer as `curl -i` prints it, or a bare body with --status; without one it is read from stdin.

    \b
    Examples:
      curl -si https://api.openai.com/v1/models | steadycall classify --url https://api.openai.com
      steadycall classify --status 429 -H 'Retry-After: 90' --max-wait 120 body.json
    """
    policy = policy_of(fields, Policy(), most_requests=MOST_REQUESTS)
    answer = taken(file, status, headers)
    if status is None and not 100 <= answer.status <= 599:
        raise BadInput(f"the status line has {answer.status}, which is no status: they go from 100 to 599")
    with refusing():
        failure = steadycall.classify(status=answer.status, headers=answer.headers, body=answer.body, url=url)
    least, most = (None, None) if failure is None else played(policy, answer, url)
    if as_json:
        click.echo(paint.as_json(as_data(answer, least, most)))
    elif least is None or most is None:
        click.echo(f"{answer.status}: a good answer. There is nothing to retry.")
    else:
        click.echo(in_words(answer, least, most, paint.Paint()))


def taken(file: BinaryIO, status: int | None, headers: tuple[str, ...]) -> Answer:
    """The answer that was given, whole or in parts.

    Raises:
        UsageError: the parts do not go together.
        BadInput: there is no answer in it.
    """
    if status is None and headers:
        raise click.UsageError("--header goes with a bare body, and that needs --status")
    if file.isatty():
        print("steadycall classify: reading from the terminal; Ctrl-D ends it", file=sys.stderr)
    data = file.read()
    try:
        if status is None:
            return read_answer(data)
        if looks_like_one(data):
            raise click.UsageError("the input has a status line of its own: leave --status out")
        return Answer(status, [read_header(header) for header in headers], data)
    except NotHTTP as error:
        if status is not None:
            raise click.UsageError(f"--header: {error}") from None
        raise BadInput(f"{error} A bare body needs --status." if not data.strip() else str(error)) from None


def played(policy: Policy, answer: Answer, url: str | None) -> tuple[Rehearsal, Rehearsal]:
    """What the policy does when this answer comes each time, with the shortest and the longest waits."""

    def fail(_: int) -> BaseException:
        # An answer as the standard library raises it: judged by the policy's own table of statuses.
        return urllib.error.HTTPError(url or "", answer.status, "", answer.headers, io.BytesIO(answer.body))  # type: ignore[arg-type]  # pairs, as they came

    return rehearse(policy, fail, draw=LEAST), rehearse(policy, fail, draw=MOST)


def as_data(answer: Answer, least: Rehearsal | None, most: Rehearsal | None) -> dict[str, Any]:
    """All that is known, for programs."""
    if least is None or most is None:
        return {"status": answer.status, "good": True, "retries": False}
    failure, wait = least.failures[0], waits(least, most, 0)
    hint = None if failure.hint is None else {"seconds": failure.hint.seconds, "source": failure.hint.source}
    return {
        "status": answer.status,
        "good": False,
        "kind": failure.kind,
        "retryable": failure.retryable,
        "provider_code": failure.provider_code,
        "hint": hint,
        "sent": failure.sent,
        "reason": failure.reason,
        "dialect": failure.dialect,
        "retries": wait is not None,
        "wait": None if wait is None else {"least": wait[0], "most": wait[1]},
        "if_it_comes_each_time": {
            "attempts": dict(zip(("least", "most"), attempts(least, most), strict=True)),
            "waits_for": {"least": round(least.elapsed, 9), "most": round(most.elapsed, 9)},
            "stop_reason": most.stop_reason,
            "because": most.because,
        },
    }


def in_words(answer: Answer, least: Rehearsal, most: Rehearsal, color: paint.Paint) -> str:
    """The same for people."""
    failure = least.failures[0]
    shade = paint.RED if failure.kind == "permanent" else paint.YELLOW
    code = "" if failure.provider_code is None else f", the provider's code {failure.provider_code}"
    if failure.hint is None:
        hint = "none: the server asks for no wait"
    else:
        hint = f"{paint.long(failure.hint.seconds)}, asked for in {failure.hint.source}"
    whose = "no provider recognised" if failure.dialect == "generic" else failure.dialect
    rows = [
        ("status", f"{answer.status}{code} ({whose})"),
        ("kind", f"{color(shade, failure.kind)}: {MEANINGS[failure.kind]}"),
        ("reason", failure.reason),
        ("hint", hint),
        ("sent", "maybe: it may have reached the model, and been billed" if failure.sent == "maybe" else "no"),
        ("policy", what_it_does(least, most)),
    ]
    if len(most.attempts) > 1:
        counted = f"{to(*attempts(least, most))} attempts and {to(least.elapsed, most.elapsed)} s of waits"
        rows.append(("", f"if it comes each time: {counted}, then {most.because}"))
    return "\n".join(f"{color(paint.DIM, f'{label:<8}')}{text}" for label, text in rows)


def what_it_does(least: Rehearsal, most: Rehearsal) -> str:
    """What happens after the first such answer."""
    wait = waits(least, most, 0)
    if wait is None:
        return f"gives up at once: {most.because}"
    if wait[0] == wait[1]:
        return f"waits {paint.long(wait[0])} and tries again"
    return f"waits {to(*wait)} s, drawn at random, and tries again"


def waits(least: Rehearsal, most: Rehearsal, number: int) -> tuple[float, float] | None:
    """The shortest and the longest wait after an attempt; ``None`` when none follows."""
    short, long = least.attempts[number].wait, most.attempts[number].wait
    return None if short is None or long is None else (round(short, 9), round(long, 9))


def attempts(least: Rehearsal, most: Rehearsal) -> tuple[int, int]:
    """How many attempts there are; with a deadline that hangs on the waits."""
    counts = len(least.attempts), len(most.attempts)
    return min(counts), max(counts)


def to(least: float, most: float) -> str:
    """A range in words."""
    ends = dict.fromkeys(map(paint.number, (least, most)))
    return " to ".join(ends)
