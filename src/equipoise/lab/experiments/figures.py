"""Draw figures as PNG, without a display.

Only this module imports matplotlib, at the first figure: the import takes half a second and runs do not need it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import SettingsError
from equipoise.lab.experiments.result import Figure, Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

WIDTH_INCHES = 8.0
PANEL_INCHES = 2.6
DOTS_PER_INCH = 110
COLOURS = ("#1f4e8c", "#c8501e", "#2e7d4f", "#7a3e8f", "#8a6d1d", "#555555")
LEGEND_LINES_MAX = 10
MARKERS = ("d", "o", "s", "^")


def draw(figure: Figure, folder: Path) -> Path:
    """Write `<name>.png` into the folder and return its path."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as problem:
        raise SettingsError(
            "figures need matplotlib: pip install 'equipoise[experiments]', or leave out --out"
        ) from problem
    count = len(figure.panels)
    canvas = Canvas(figsize=(WIDTH_INCHES, PANEL_INCHES * count + 0.7), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(count, 1, sharex=True, squeeze=False)
    for panel, ax in zip(figure.panels, axes[:, 0], strict=True):
        _draw_panel(panel, ax)
    axes[-1, 0].set_xlabel(figure.x_label)
    canvas.suptitle(figure.title, fontsize=11)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{figure.name}.png"
    # No date and no version in the file: the same numbers give the same file.
    canvas.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
    return path


def _draw_panel(panel: Panel, ax: Axes) -> None:
    right: Axes | None = None
    shown: list[Any] = []
    for index, line in enumerate(panel.lines):
        colour = COLOURS[index % len(COLOURS)]
        if line.right_label:
            if right is None:
                right = ax.twinx()
                right.set_ylabel(line.right_label)
            shown += _draw_line(line, right, colour)
        else:
            shown += _draw_line(line, ax, colour)
    if right is not None:
        # After the lines: setting a limit disables autoscaling.
        right.set_ylim(bottom=0)
    if panel.level is not None:
        shown.append(ax.axhline(panel.level, color="#999999", linestyle="--", linewidth=1))
        shown[-1].set_label(panel.level_label)
    if panel.is_log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    for index, marks in enumerate(panel.marks):
        bottom = ax.get_ylim()[0]
        (points,) = ax.plot(
            marks.x,
            [bottom] * len(marks.x),
            MARKERS[index % len(MARKERS)],
            color=COLOURS[index % len(COLOURS)],
            markersize=5,
            clip_on=False,
            label=marks.label,
        )
        shown.append(points)
    ax.set_ylabel(panel.y_label)
    ax.set_title(panel.title, fontsize=9, loc="left")
    ax.grid(alpha=0.25)
    if len(panel.lines) > LEGEND_LINES_MAX:
        # Too many lines to distinguish get no legend.
        shown = shown[len(panel.lines) :]
    if shown:
        ax.legend(handles=shown, fontsize=7, loc="upper left")


def _draw_line(line: Line, ax: Axes, colour: str) -> list[Any]:
    y = [float("nan") if value is None else value for value in line.y]
    if line.is_stepped:
        return ax.step(line.x, y, where="post", color=colour, linewidth=1.3, label=line.label)
    marker = "." if len(y) <= 40 else ""
    return ax.plot(line.x, y, color=colour, linewidth=1.3, marker=marker, label=line.label)
