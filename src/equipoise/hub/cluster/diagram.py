"""Draw the life of a stream from the very table that the code runs."""

from __future__ import annotations

from equipoise.hub.cluster.streams import TABLE, Action, Event, State

__all__ = ["render_reference"]

_STATES = {
    State.OPEN: "the topic lives here: messages get their positions here",
    State.CLOSING: "it still does; the hub that is to have it has been asked whether it is ready",
    State.OPENING: "it is to live here: messages are held until it is certain that nobody else numbers them",
    State.REMOTE: "it lives elsewhere: messages are passed on, its stream is followed if anybody here listens",
}
_ACTIONS = {
    Action.PREPARE: "send PREPARE to the new home",
    Action.CANCEL: "send CANCEL to the hub that was asked",
    Action.AGREE: "answer PREPARED",
    Action.CLOSE: "end the epoch: CLOSE to the new home, CLOSED to all, follow the new home",
    Action.OPEN_AFTER: "begin the next epoch, naming the end of the last",
    Action.OPEN_NEW: "begin an epoch without a predecessor",
    Action.FOLLOW: "follow the home's stream, if anybody here listens",
    Action.WITHDRAW: "forget who asked",
}


def render_reference() -> str:
    """The page `docs/reference/handover.md`."""
    return "\n".join(
        (
            "# The life of a stream at one hub",
            "",
            "Made from the code's own table by `make docs`; do not edit. [Handover](../concepts/handover.md) tells the",
            "story around it.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *(f"    {state.value}: {state.value}" for state in State),
            *_arrows(),
            "```",
            "",
            "| state | meaning |",
            "|---|---|",
            *(f"| {state.value} | {meaning} |" for state, meaning in _STATES.items()),
            "",
            "| state | event | next | actions |",
            "|---|---|---|---|",
            *_rows(),
            "",
            "What is not in the table changes nothing.",
            "",
        )
    )


def _arrows() -> list[str]:
    """One arrow between two states, labelled with all events that lead along it."""
    events: dict[tuple[State, State], list[Event]] = {}
    for (state, event), (following, _) in TABLE.items():
        if state is not following:
            events.setdefault((state, following), []).append(event)
    return [
        f"    {state.value} --> {following.value}: {' / '.join(event.value.replace(':', ',') for event in found)}"
        for (state, following), found in events.items()
    ]


def _rows() -> list[str]:
    return [
        f"| {state.value} | {event.value} | {following.value} | {'; '.join(_ACTIONS[action] for action in actions)} |"
        for (state, event), (following, actions) in TABLE.items()
    ]
