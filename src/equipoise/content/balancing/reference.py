"""Generate the tables of edges and heads from the code: docs/reference/balancing.md.

The texts are the docstrings of events, guards and actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from equipoise.content.balancing.edge_table import EDGE_TABLE, EdgeTransition
from equipoise.content.balancing.head_table import HEAD_TABLE, HeadTransition

__all__ = ["render_balancing"]


def render_balancing(settings: str, thresholds: str) -> str:
    """The page `docs/reference/balancing.md`, with these two tables of settings in it."""
    return "\n".join(
        (
            "# Balancing of content topics: states and settings",
            "",
            "Generated from the code's own tables by `make docs`; do not edit. [Balancing content topics]"
            "(../concepts/content-balancing.md)",
            "explains them.",
            "",
            "For a state and an event, the first row whose condition holds applies. Other combinations have no effect.",
            "",
            "## An edge",
            "",
            *_section(EDGE_TABLE),
            "## A cluster, at its head",
            "",
            *_section(HEAD_TABLE),
            "## Settings",
            "",
            "The table `[content]` of a hub's settings file.",
            "",
            settings,
            "",
            "`input`, `output`, `cpu` and `memory` have two thresholds each:",
            "",
            thresholds,
            "",
        )
    )


def _section(table: Sequence[EdgeTransition | HeadTransition]) -> Iterable[str]:
    yield from ("```mermaid", "stateDiagram-v2", *_arrows(table), "```", "")
    yield from ("| state | event | if | next | actions |", "|---|---|---|---|---|")
    for row in table:
        actions = "; ".join(inspect.getdoc(action) or "" for action in row.actions)
        yield (
            f"| {row.phase.value} | {inspect.getdoc(row.event)} | {inspect.getdoc(row.guard) or ''} | "
            f"{row.following.value} | {actions} |"
        )
    yield ""


def _arrows(table: Sequence[EdgeTransition | HeadTransition]) -> Iterable[str]:
    """One arrow between two states, labelled with the events that lead along it."""
    causes: dict[tuple[str, str], dict[str, None]] = {}
    for row in table:
        if row.phase.value != row.following.value:
            at = row.phase.name.lower(), row.following.name.lower()
            causes.setdefault(at, {})[inspect.getdoc(row.event) or ""] = None
    return [
        f"    {state} --> {following}: {' / '.join(found)}" for (state, following), found in causes.items()
    ]
