"""The bench: `python benches/bench.py [--rounds 7] [--quick] [--only sync,async64] [--wheel PATH]`.

Measures each client in a process of its own, all of them once in each round, and reports medians of ratios taken
within a round. README.md beside this file says why, and how far the figures can be trusted.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import clients
import machine
from report import Results, render
from runner import HERE, Failed, Runner, Sample, build, serving
from works import FLOOR, NAMES, OURS, STARTUP, WORKS, Work

RESULTS = HERE / "RESULTS.md"
ENOUGH_ROUNDS = 7
FILES = 8192  # a thousand connections and room


def main(argv: Sequence[str] | None = None) -> None:
    options = parse(argv)
    raise_file_limit()
    head = machine.describe()
    results = Results(options.rounds)
    start = time.monotonic()
    binaries = build()
    with serving(binaries) as base:
        run(Runner(binaries, base, options.seconds, results.note), results, options.only, options.rounds)
    if "wheel" in options.only and options.wheel is not None:
        results.add("wheel", OURS, {"mb": options.wheel.stat().st_size / 1e6})

    minutes = (time.monotonic() - start) / 60
    taken = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {minutes:.1f} minutes: "
    taken += f"{options.rounds} rounds, about {options.seconds:g} s a measurement."
    if options.rounds < ENOUGH_ROUNDS or options.quick:
        taken += " **A trial: too short for a result.**"
    text = render(results, [taken, *head])
    print(text)
    if options.output is not None:
        options.output.write_text(text)
        log(f"written to {options.output}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures steadycall against pure Rust and its rivals.")
    parser.add_argument("--rounds", type=int, help="rounds, 7 or more for a result (default 7, 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="short measurements, to see that it works")
    works = f"some of {','.join(NAMES)}; a beginning such as 'async' means all that share it"
    parser.add_argument("--only", type=names, default=NAMES, help=works)
    parser.add_argument("--wheel", type=Path, help="the wheel to weigh")
    parser.add_argument("--output", type=Path, help=f"default {RESULTS} for a whole run, none with --quick or --only")
    options = parser.parse_args(argv)
    options.rounds = options.rounds or (2 if options.quick else ENOUGH_ROUNDS)
    options.seconds = 0.1 if options.quick else 0.5
    if options.output is None and not options.quick and options.only == NAMES:
        options.output = RESULTS
    return options


def names(text: str) -> tuple[str, ...]:
    """A full name means itself, a beginning all that share it."""
    chosen: set[str] = set()
    for name in (part.strip() for part in text.split(",")):
        found = [name] if name in NAMES else [known for known in NAMES if known.startswith(name)]
        if not found:
            raise argparse.ArgumentTypeError(f"no such work: {name}")
        chosen.update(found)
    return tuple(known for known in NAMES if known in chosen)


def run(runner: Runner, results: Results, only: Iterable[str], rounds: int) -> None:
    missing = {name for name, module in clients.IMPORTS.items() if find_spec(module.partition(".")[0]) is None}
    for name in sorted(missing):
        results.note(f"{name} is not installed and was left out.")
    lost: set[tuple[str, str]] = set()
    for number in range(-1, rounds):
        began = time.monotonic()
        for work in WORKS:
            if work.name in only:
                order = turn([name for name in work.clients if name not in missing], number)
                traffic(runner, results, work, order, lost, calibrate=number < 0)
        for name in STARTUP:
            if name in only:
                startup(runner, results, name, missing, number)
        log(f"{'calibration' if number < 0 else f'round {number + 1} of {rounds}'}: {time.monotonic() - began:.0f} s")
    if "modules" in only and OURS not in missing:
        modules(runner, results)


def traffic(
    runner: Runner, results: Results, work: Work, order: list[str], lost: set[tuple[str, str]], *, calibrate: bool
) -> None:
    """One round of one work; a client whose calibration failed is lost to all rounds, and its row stays empty."""
    for client in order:
        key = (work.name, client)
        if calibrate:
            if attempt(results, ", ".join(key), partial(runner.calibrate, work, client)) is None:
                lost.add(key)
        elif key in lost:
            results.add(*key, None)
        else:
            results.add(*key, attempt(results, ", ".join(key), partial(runner.measure, work, client)))


def startup(runner: Runner, results: Results, name: str, missing: set[str], number: int) -> None:
    known = clients.IMPORTS if name == "import" else clients.SYNC
    for client in turn([client for client in known if client not in missing], number):
        if name == "import":
            measure = partial(runner.import_time, clients.IMPORTS[client])
        else:
            measure = partial(runner.first_call, client)
        sample = attempt(results, f"{name}, {client}", measure)
        if number >= 0:  # the round before writes the byte code
            results.add(name, client, sample)


def modules(runner: Runner, results: Results) -> None:
    try:
        found = runner.modules()
    except Failed as error:
        results.note(f"modules: {error}")
        return
    results.add("modules", OURS, {"count": float(sum(map(len, found.values())))})
    for kind, new in found.items():
        results.note(f"Modules first imported during {kind}: {', '.join(new) or 'none'}.")


def turn(order: list[str], number: int) -> list[str]:
    """Another order each round: no client always follows the same one, and ours stays beside the floor."""
    pair = [name for name in order if name in (FLOOR, OURS)]
    rivals = [name for name in order if name not in pair]
    start = number % len(rivals) if rivals else 0
    return (pair if number % 2 == 0 else pair[::-1]) + rivals[start:] + rivals[:start]


def attempt(results: Results, label: str, measure: Callable[[], Sample]) -> Sample | None:
    try:
        return measure()
    except Failed as error:
        results.note(f"{label}: {error}")
        log(f"{label}: {error}")
        return None


def raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
