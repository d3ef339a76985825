"""Turns samples into the tables of RESULTS.md: goals first, then each work with every client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from runner import Sample
from works import FLOOR, GOALS, NAMES, ONCE, OURS, STARTUP, WORKS, Goal


@dataclass
class Results:
    """Samples by work and client, one place a round, None where the round failed; and what went wrong."""

    rounds: int
    samples: dict[str, dict[str, list[Sample | None]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, work: str, client: str, sample: Sample | None) -> None:
        self.samples.setdefault(work, {}).setdefault(client, []).append(sample)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def figures(self, work: str, client: str, metric: str) -> list[float]:
        return [sample[metric] for sample in self._rounds(work, client) if sample is not None and metric in sample]

    def ratios(self, work: str, metric: str, of: str, over: str) -> list[float]:
        """Round by round: two figures far apart in time have met different machines."""
        pairs = zip(self._rounds(work, of), self._rounds(work, over), strict=False)
        return [a[metric] / b[metric] for a, b in pairs if a and b and metric in a and b.get(metric)]

    def _rounds(self, work: str, client: str) -> list[Sample | None]:
        return self.samples.get(work, {}).get(client, [])


def render(results: Results, head: list[str]) -> str:
    """The whole of RESULTS.md."""
    parts = ["# Results", "", *(f"- {line}" for line in head), "", *_goals(results)]
    for work in WORKS:
        if work.name in results.samples:
            parts += ["", f"## {work.name}: {work.title}", "", *_traffic(results, work.name)]
    for name, title in STARTUP.items():
        if name in results.samples:
            parts += ["", f"## {name}: {title}", "", *_startup(results, name)]
    if results.notes:
        parts += ["", "## Notes", "", *(f"- {note}" for note in results.notes)]
    return "\n".join(parts) + "\n"


def _goals(results: Results) -> Iterator[str]:
    yield "## Goals"
    yield ""
    yield "Median [lowest-highest round]; the verdict is about the median, the count says in how many rounds it held."
    yield ""
    yield "| work | figure | goal | measured | |"
    yield "|---|---|---|---|---|"
    titles = {work.name: work.title for work in WORKS} | STARTUP | ONCE
    for goal in sorted(GOALS, key=lambda goal: NAMES.index(goal.work)):
        figures = _figures(results, goal)
        row = [titles[goal.work], goal.what, str(goal), _spread(figures, goal.unit), _verdict(goal, figures)]
        yield f"| {' | '.join(row)} |"


def _figures(results: Results, goal: Goal) -> list[float]:
    if goal.over is None:
        return results.figures(goal.work, goal.of, goal.metric)
    return results.ratios(goal.work, goal.metric, goal.of, goal.over)


def _verdict(goal: Goal, figures: list[float]) -> str:
    if not figures:
        return "not measured"
    verdict = "reached" if goal.reached(median(figures)) else "**missed**"
    held = sum(map(goal.reached, figures))
    if goal.stretch is not None and median(figures) <= goal.stretch:
        verdict += ", stretch too"
    return verdict if len(figures) == 1 else f"{verdict} ({held} of {len(figures)})"


def _traffic(results: Results, work: str) -> Iterator[str]:
    herd = work == "herd"
    columns = ["client", "CPU us/request", "x pure Rust", "x steadycall", "requests/s"]
    columns += ["wall ms", "KiB/call"] if herd else []
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for client in results.samples[work]:
        row = [
            client,
            _spread(results.figures(work, client, "cpu_us")),
            "1" if client == FLOOR else _spread(results.ratios(work, "cpu_us", client, FLOOR)),
            "1" if client == OURS else _spread(results.ratios(work, "cpu_us", client, OURS)),
            _spread(results.figures(work, client, "rps")),
        ]
        if herd:
            row += [_spread(results.figures(work, client, metric)) for metric in ("wall_ms", "peak_kib")]
        yield f"| {' | '.join(row)} |"


def _startup(results: Results, work: str) -> Iterator[str]:
    yield "| client | wall ms | CPU ms | wall, x steadycall |"
    yield "|---|---|---|---|"
    for client in results.samples[work]:
        row = [
            client,
            _spread(results.figures(work, client, "wall_ms")),
            _spread(results.figures(work, client, "cpu_ms")),
            "1" if client == OURS else _spread(results.ratios(work, "wall_ms", client, OURS)),
        ]
        yield f"| {' | '.join(row)} |"


def _spread(figures: list[float], unit: str = "") -> str:
    if not figures:
        return "-"
    text = _short(median(figures)) + (f" {unit}" if unit else "")
    return text if len(figures) == 1 else f"{text} [{_short(min(figures))}-{_short(max(figures))}]"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 or figure == 0 else f"{figure:.3g}"
