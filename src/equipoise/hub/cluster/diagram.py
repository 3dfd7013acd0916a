"""Draw the handover from the table that the code runs: docs/reference/handover.md.

The texts are the docstrings of states, events, guards and actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from equipoise.stream.effects import StreamState
from equipoise.stream.handover import TABLE, Transition

__all__ = ["render_reference"]


def render_reference() -> str:
    """The page `docs/reference/handover.md`."""
    return "\n".join(
        (
            "# The states of a topic's stream at one hub",
            "",
            "Generated from the code's own table by `make docs`; do not edit. See [Handover](../concepts/handover.md).",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *(f"    {state.value}: {state.value}" for state in StreamState),
            *_arrows(),
            "```",
            "",
            "| state | meaning |",
            "|---|---|",
            *(f"| {state.value} | {meaning} |" for state, meaning in _meanings().items()),
            "",
            "For a state and an event, the first row whose condition holds applies. Other combinations have no effect.",
            "A *review* follows a change that the stream may wait for; the delivery of a message is not such a change.",
            "",
            "| state | event | if | next | actions |",
            "|---|---|---|---|---|",
            *(_line(row) for row in TABLE),
            "",
        )
    )


def _meanings() -> dict[StreamState, str]:
    """The string below each member, as documentation tools read it."""
    lines = [line.strip() for line in inspect.getsource(StreamState).splitlines()]
    return {
        state: lines[lines.index(f'{state.name} = "{state.value}"') + 1].strip('"').rstrip(".")
        for state in StreamState
    }


def _arrows() -> Iterable[str]:
    """One arrow between two states, labelled with all its events and guards."""
    causes: dict[tuple[StreamState, StreamState], list[str]] = {}
    for row in TABLE:
        if row.state is not row.following:
            cause = ", ".join(filter(None, (inspect.getdoc(row.event), inspect.getdoc(row.guard))))
            causes.setdefault((row.state, row.following), []).append(cause)
    return [
        f"    {state.value} --> {following.value}: {' / '.join(found)}"
        for (state, following), found in causes.items()
    ]


def _line(row: Transition[Any]) -> str:
    actions = "; ".join(inspect.getdoc(action) or "" for action in row.actions)
    guard = inspect.getdoc(row.guard) or ""
    return (
        f"| {row.state.value} | {inspect.getdoc(row.event)} | {guard} | {row.following.value} | {actions} |"
    )
