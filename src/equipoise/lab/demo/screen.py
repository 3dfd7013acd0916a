"""Show a scene: redrawn each second on a terminal, as lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from equipoise.lab.demo.scene import HubLine, PlanEvent, Scene, SwarmLine

__all__ = ["LineShow", "ScreenShow", "render", "swarm_words"]

BAR_CELLS = 24


class ScreenShow:
    """For terminals. Use as a context manager; call it with every scene."""

    def __init__(self, console: Console, header: str) -> None:
        self._header = header
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Callable[[Scene], None]:
        self._live.__enter__()
        return self.show

    def __exit__(self, *problem: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, scene: Scene) -> None:
        self._live.update(render(scene, self._header, self._live.console.height), refresh=True)


class LineShow:
    """For files and pipes: acts and plan changes as they happen, numbers every few seconds."""

    def __init__(self, console: Console, header: str) -> None:
        self._console = console
        self._header = header
        self._act = ""
        self._change: PlanEvent | None = None
        self._next_at_s = 0.0

    def __enter__(self) -> Callable[[Scene], None]:
        self._print(self._header)
        return self.show

    def __exit__(self, *problem: object) -> None:
        return None

    def show(self, scene: Scene) -> None:
        if scene.act != self._act:
            self._act, self._next_at_s = scene.act, 0.0
            self._print(f"{scene.at_s:5.0f} s  == {scene.act}: {scene.words}")
        fresh = list(scene.changes)
        if self._change is not None and self._change in fresh:
            fresh = fresh[fresh.index(self._change) + 1 :]
        for change in fresh:
            self._change = change
            self._print(f"{scene.at_s:5.0f} s     plan {change.version}: {_change_line(change)}")
        if scene.at_s >= self._next_at_s:
            # A swarm moves within seconds.
            self._next_at_s = scene.at_s + (4.0 if scene.swarm is None else 2.0)
            loads = ", ".join(f"{hub.name} {_percent(hub.load)}" for hub in scene.hubs)
            self._print(f"{scene.at_s:5.0f} s  {_numbers(scene)}; {loads}")
            if scene.swarm is not None:
                self._print(f"{scene.at_s:5.0f} s  {swarm_words(scene.swarm)}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def render(scene: Scene, header: str, lines: int = 40) -> RenderableType:
    """The whole screen, the latest moves as far as `lines` allow."""
    title = Text.assemble((f"{scene.at_s:4.0f} s  ", "dim"), (scene.act, "bold cyan"))
    topics = 5 if lines >= 34 else 3
    moves = max(2, lines - 15 - 2 * (scene.swarm is not None) - len(scene.hubs) - topics)
    return Group(
        Text(header, style="dim"),
        Panel(Text(scene.words), title=title, title_align="left"),
        _verdict(scene),
        *([] if scene.swarm is None else [_swarm(scene.swarm)]),
        _hubs(scene),
        _topics(scene, topics),
        _changes(scene, moves),
    )


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", expand=True, box=None, pad_edge=False, header_style="dim")


def _hubs(scene: Scene) -> Table:
    table = _table("Hubs")
    for heading in ("hub", "load", "", "out", ""):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "out" else "left")
    for hub in scene.hubs:
        out = "–" if hub.out_bytes_per_s is None else f"{hub.out_bytes_per_s / 1000:,.0f} kB/s"
        table.add_row(hub.name, _bar(hub.load), _percent(hub.load), out, _remark(hub))
    return table


def _topics(scene: Scene, count: int) -> Table:
    table = _table("Hot topics")
    for heading in ("topic", "out", "listeners", "mode", "lives at"):
        table.add_column(
            heading, no_wrap=True, justify="right" if heading in ("out", "listeners") else "left"
        )
    for topic in scene.topics[:count]:
        style = "bold yellow" if len(topic.homes) > 1 else ""
        out = f"{topic.out_bytes_per_s / 1000:,.0f} kB/s"
        table.add_row(
            topic.name, out, f"{topic.subscribers:,.0f}", topic.mode, ", ".join(topic.homes), style=style
        )
    return table


def _changes(scene: Scene, count: int) -> Table:
    table = _table("Moves")
    table.add_column("plan", justify="right", no_wrap=True)
    table.add_column("what", overflow="ellipsis", no_wrap=True, ratio=3)
    table.add_column("why", overflow="ellipsis", no_wrap=True, ratio=3)
    for change in scene.changes[-count:]:
        why = Text.assemble((change.reason, "magenta"), "  ", (change.numbers, "dim"))
        table.add_row(str(change.version), change.what, why)
    return table


def _verdict(scene: Scene) -> Text:
    is_clean = not (scene.lost or scene.duplicated or scene.out_of_order)
    return Text(_numbers(scene) + "\n", style="bold green" if is_clean else "bold red")


def _numbers(scene: Scene) -> str:
    return (
        f"{scene.players} players, {len(scene.hubs)} hubs; {scene.published_per_s:,.0f} updates/s, "
        f"{scene.delivered_per_s:,.0f} received/s; p50 {_millis(scene.latency_ms_p50)}, "
        f"p99 {_millis(scene.latency_ms_p99)}; lost {scene.lost}, duplicated {scene.duplicated}, "
        f"out of order {scene.out_of_order}"
    )


def swarm_words(swarm: SwarmLine) -> str:
    verdict = "" if swarm.is_held is None else ": held" if swarm.is_held else ": BROKEN"
    where = f"{swarm.home} in the {swarm.home_site}" if swarm.home_site else swarm.home or "no hub"
    return (
        f"the swarm is in the {swarm.site}, its topic at {where}; {_millis(swarm.latency_ms)}, "
        f"limit {swarm.limit_ms:.0f} ms{verdict}"
    )


def _swarm(swarm: SwarmLine) -> Text:
    return Text(swarm_words(swarm) + "\n", style="bold red" if swarm.is_held is False else "bold green")


def _change_line(change: PlanEvent) -> str:
    numbers = f" ({change.numbers})" if change.numbers else ""
    return f"{change.what}: {change.reason}{numbers}"


def _remark(hub: HubLine) -> str:
    if hub.weight is None:
        return "starting or leaving"
    return "being emptied" if hub.weight == 0 else ""


def _bar(load: float | None) -> Text:
    if load is None:
        return Text("not measured yet", style="dim")
    cells = round(BAR_CELLS * min(1.0, load))
    style = "red" if load > 0.8 else "yellow" if load > 0.6 else "green"
    return Text.assemble(("█" * cells, style), ("·" * (BAR_CELLS - cells), "dim"))


def _percent(load: float | None) -> str:
    return "–" if load is None else f"{100 * load:.0f} %"


def _millis(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms"
