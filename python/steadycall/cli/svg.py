"""The line of time as an SVG picture, for a page or a review."""

from __future__ import annotations

from xml.sax.saxutils import escape

from steadycall.cli.paint import seconds, times
from steadycall.cli.picture import elided, label, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steadycall.cli.plan import Plan

LEFT, WIDTH, RIGHT, ROW, TOP = 110, 640, 150, 22, 78
ATTEMPT, WAIT, INK, FAINT = "#2f6fb5", "#e0a93b", "#1c1c1c", "#d0d0d0"
MOST_TICKS = 8


def svg(plan: Plan) -> str:
    """A whole SVG document, for light pages and dark."""
    rows = list(elided(plan.line))
    height = TOP + ROW * (len(rows) + sum(bool(skipped) for _, skipped in rows)) + 40
    whole = LEFT + WIDTH + RIGHT
    bottom = height - 40
    worst = "nothing bounds it" if plan.worst.seconds is None else seconds(plan.worst.seconds)
    named = f"Worst case: {worst}, {times(plan.worst.requests, 'request')}, {plan.calls}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height}" width="{whole}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">',
        f"<title>{escape(named)}</title>",
        f'<rect width="{whole}" height="{height}" fill="#ffffff"/>',
        text(16, 24, named, 'font-weight="bold"'),
        text(16, 42, repr(plan.policy), 'font-family="ui-monospace, monospace" font-size="11"'),
        text(16, 60, title(plan)),
    ]
    for tick in ticks(plan.end):
        x = at(tick, plan.end)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{FAINT}"/>')
        parts.append(text(x, bottom + 16, seconds(tick), 'text-anchor="middle" font-size="11"'))
    y = TOP
    for bar, skipped in rows:
        if skipped:
            parts.append(text(16, y + 14, f"... {skipped} more"))
            y += ROW
        x, width = at(bar.began, plan.end), max(at(bar.ended, plan.end) - at(bar.began, plan.end), 2.0)
        shade = WAIT if bar.is_wait else ATTEMPT
        parts.append(text(16, y + 14, label(plan, bar).strip(), "" if not bar.is_wait else f'fill="{WAIT}"'))
        parts.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 7}" rx="2" fill="{shade}"/>')
        parts.append(text(x + width + 5, y + 14, seconds(bar.ended - bar.began), 'font-size="11"'))
        y += ROW
    parts.append(text(16, height - 6, f"Then: {plan.because}"))
    return "\n".join([*parts, "</svg>", ""])


def at(moment: float, end: float) -> float:
    return LEFT + (0.0 if end == 0 else moment / end * WIDTH)


def text(x: float, y: float, said: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}"{" " + more if more else ""}>{escape(said)}</text>'


def ticks(end: float) -> list[float]:
    """Round moments from 0 to the end, at most so many."""
    if end == 0:
        return [0.0]
    size = 10.0**-6
    while True:
        for step in (size, 2 * size, 5 * size):
            if end / step <= MOST_TICKS:
                return [round(number * step, 9) for number in range(int(end / step) + 1)]
        size *= 10
