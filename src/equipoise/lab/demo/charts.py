"""Line charts as SVG text, for a report that needs no other file. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

__all__ = ["Band", "line_chart"]

WIDTH, HEIGHT = 860, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 44
COLOURS = ("#0f7173", "#d1603d", "#5b5ea6", "#8a9a2b", "#b4436c", "#2a82c9", "#96690a", "#4a8f6d")

# (from, to, title), in the chart's own time.
Band = tuple[float, float, str]


def line_chart(
    title: str,
    times: Sequence[float],
    curves: Mapping[str, Sequence[float | None]],
    *,
    unit: str = "",
    bands: Sequence[Band] = (),
) -> str:
    """Curves over time, interrupted where a value is None; bands are drawn behind them."""
    known = [value for curve in curves.values() for value in curve if value is not None]
    top = _round_up(max(known, default=1.0))
    end = max(times[-1] if times else 1.0, 1e-9)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at / end

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [f'<text x="{LEFT}" y="16" class="title">{escape(title)}</text>']
    for number, (since, until, name) in enumerate(bands):
        parts.append(
            f'<rect x="{x(since):.1f}" y="{TOP}" width="{max(0.0, x(until) - x(since)):.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}" class="band{number % 2}"><title>{escape(name)}</title></rect>'
        )
    for part in range(5):
        value = top * part / 4
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="grid"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" class="tick" text-anchor="end">{value:g}{unit}</text>'
        )
    for part in range(7):
        at = end * part / 6
        parts.append(
            f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 16}" class="tick" text-anchor="middle">{at:.0f} s</text>'
        )
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        for stretch in _stretches(times, curve):
            points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in stretch)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        at_x = LEFT + 110 * number
        parts.append(f'<rect x="{at_x}" y="{HEIGHT - 16}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{at_x + 14}" y="{HEIGHT - 7}" class="tick">{escape(name)}</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def _stretches(times: Sequence[float], curve: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """The parts of a curve without holes."""
    stretches: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(times, curve, strict=True):
        if value is not None:
            stretches[-1].append((at, value))
        elif stretches[-1]:
            stretches.append([])
    return [stretch for stretch in stretches if stretch]


def _round_up(value: float) -> float:
    """To a number that quarters well."""
    if value <= 0:
        return 1.0
    power = float(10 ** floor(log10(value)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value * 0.999)
