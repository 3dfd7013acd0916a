"""The report: one HTML file with line charts as SVG, the changes of the plan and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

from equipoise.lab.demo.acts import Act
from equipoise.lab.demo.scene import PlanEvent, Scene
from equipoise.lab.demo.swarm import LIMIT_MS, Following

__all__ = ["Band", "line_chart", "report_page", "summary_lines"]

WIDTH, HEIGHT = 860, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 44
COLOURS = ("#0f7173", "#d1603d", "#5b5ea6", "#8a9a2b", "#b4436c", "#2a82c9", "#96690a", "#4a8f6d")

# (from, to, title), in the time of the chart.
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
    """Round up to a number with round quarters."""
    if value <= 0:
        return 1.0
    power = float(10 ** floor(log10(value)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value * 0.999)


_STYLE = """\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2b2b;background:#fff}
h1{margin-bottom:.2rem}figure{margin:1.2rem 0}svg{width:100%;height:auto}svg .title{font:600 14px system-ui}
svg .tick{font:11px system-ui;fill:#566}svg .grid{stroke:#0001}svg .band0{fill:#0f71730d}svg .band1{fill:#d1603d12}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:.25rem .5rem;text-align:left;vertical-align:top;
border-bottom:1px solid #0001}.good{color:#0f7173}.bad{color:#b3261e}.dim{color:#566}
"""


def summary_lines(
    verdict: Mapping[str, int],
    *,
    published: int,
    delivered: int,
    moves: int,
    hubs_max: int,
    homes_max: int,
    following: Following | None = None,
    missed: Sequence[Act] = (),
) -> list[str]:
    """The summary at the end of the demo."""
    found = {"lost": "lost", "duplicated": "duplicated", "out_of_order": "out of order"}
    wrong = [f"{verdict[name]:,} {words}" for name, words in found.items() if verdict[name]]
    lines = [
        f"{published:,} updates were published and received {delivered:,} times: "
        + ("; ".join(wrong) if wrong else "0 lost, 0 duplicated, 0 out of order")
        + ".",
        f"The demo moved the busy topic {moves} times while players published.",
    ]
    if homes_max > 1:
        lines.append(f"At most {hubs_max} hubs were running, and the crowd's tile had {homes_max} homes.")
    if following is not None and following.crossings:
        lines.append(_followed(following))
    lines += [
        f'In "{act.title}" something did not happen within {act.seconds_max:g} s: {act.until.value}.'
        for act in missed
    ]
    return lines


def _followed(following: Following) -> str:
    if following.back_s is None:
        most = following.latency_ms_max
        return f"The swarm's topic did not follow it in time{'' if most is None else f' ({most:.0f} ms at worst)'}."
    return (
        f"The swarm's updates took {following.latency_ms_max:.0f} ms at worst after it had crossed, and were back "
        f"under {LIMIT_MS:.0f} ms after {following.back_s:.0f} s: its topic had followed it."
    )


def report_page(
    scenes: Sequence[Scene], events: Sequence[PlanEvent], summary: Sequence[str], *, is_good: bool
) -> str:
    """The whole file. `scenes` are in the order of time, one per second."""
    bands = _bands(scenes)
    acts = "".join(
        f"<tr><td>{since:.0f}–{until:.0f} s</td><th>{escape(name)}</th><td>{escape(words)}</td></tr>"
        for (since, until, name), words in zip(bands, _words(scenes), strict=True)
    )
    figures = "".join(f"<figure>{figure}</figure>" for figure in _figures(scenes, bands))
    changes = "".join(
        f"<tr><td>{one.version}</td><td>{escape(one.what)}</td><td>{escape(one.reason)}</td>"
        f'<td class="dim">{escape(one.numbers)}</td></tr>'
        for one in events
    )
    verdict = "".join(f"<p>{escape(line)}</p>" for line in summary)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Equipoise: the demo</title><style>{_STYLE}</style><body><h1>Equipoise: the demo</h1>"
        f'<div class="{"good" if is_good else "bad"}">{verdict}</div>'
        f"<h2>The story</h2><table>{acts}</table><h2>Figures</h2>{figures}"
        "<h2>Every change of the plan, and why</h2>"
        f"<table><tr><th>plan</th><th>what</th><th>why</th><th>numbers</th></tr>{changes}</table></body></html>\n"
    )


def _figures(scenes: Sequence[Scene], bands: Sequence[Band]) -> list[str]:
    times = [scene.at_s for scene in scenes]
    loads = [{hub.name: hub.load for hub in scene.hubs} for scene in scenes]
    names = sorted({name for seen in loads for name in seen})
    percent = {
        name: [None if (load := seen.get(name)) is None else 100 * load for seen in loads] for name in names
    }
    return [
        line_chart("Load of each hub", times, percent, unit=" %", bands=bands),
        line_chart(
            "Players, and hubs",
            times,
            {"players": [scene.players for scene in scenes], "hubs": [len(scene.hubs) for scene in scenes]},
            bands=bands,
        ),
        line_chart(
            "Messages per second",
            times,
            {
                "published": [scene.published_per_s for scene in scenes],
                "heard": [scene.delivered_per_s for scene in scenes],
            },
            bands=bands,
        ),
        line_chart(
            "Latency from player to player",
            times,
            {
                "p50": [scene.latency_ms_p50 for scene in scenes],
                "p99": [scene.latency_ms_p99 for scene in scenes],
            },
            unit=" ms",
            bands=bands,
        ),
        *_swarm_figure(scenes, bands, times),
    ]


def _swarm_figure(scenes: Sequence[Scene], bands: Sequence[Band], times: Sequence[float]) -> list[str]:
    """The figure of the swarm; no figure without one."""
    swarms = [scene.swarm for scene in scenes]
    if not any(swarms):
        return []
    curves = {
        "95 of 100": [None if swarm is None else swarm.latency_ms for swarm in swarms],
        "limit": [None if swarm is None else swarm.limit_ms for swarm in swarms],
    }
    return [line_chart("Latency from drone to drone, and its limit", times, curves, unit=" ms", bands=bands)]


def _bands(scenes: Sequence[Scene]) -> list[Band]:
    """The beginning and end of each act."""
    bands: list[Band] = []
    for scene in scenes:
        if not bands or bands[-1][2] != scene.act:
            if bands:
                bands[-1] = (bands[-1][0], scene.at_s, bands[-1][2])
            bands.append((scene.at_s, scene.at_s, scene.act))
    if bands:
        bands[-1] = (bands[-1][0], scenes[-1].at_s, bands[-1][2])
    return bands


def _words(scenes: Sequence[Scene]) -> list[str]:
    return list({scene.act: scene.words for scene in scenes}.values())
