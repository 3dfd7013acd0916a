"""Events of a handover, and the state that its rules read and change. Pure.

The docstring of an event is its name in docs/reference/handover.md.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from equipoise.stream.effects import End, StreamState

__all__ = [
    "AnswerOverdue",
    "CancelReceived",
    "CloseReceived",
    "HandoverEvent",
    "HandoverFacts",
    "HandoverStream",
    "HubDied",
    "OpenedReceived",
    "PlanApplied",
    "PrepareReceived",
    "PreparedReceived",
    "Progressed",
    "SlotFree",
]


class HandoverStream(Protocol):
    """What the table reads and changes of a stream."""

    state: StreamState
    # The home, or the next one: another hub. None: this hub, or no hub is alive to be it.
    peer: str | None
    # The plan's version under which the last PREPARE was sent, or received.
    asked_version: int
    # The plan's version under which the topic was given to this hub: an older plan does not count for it.
    since_version: int
    # While opening: the hub that offers the topic, and where its epoch ended.
    preparer: str | None
    ending: End | None
    # Hub and version of an offer that cannot be answered yet.
    pending_offer: tuple[str, int] | None
    # Counts the changes of where messages are sent to.
    term: int
    # The hub that the stream is followed at.
    source: str | None

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and n of the last message taken."""


class HandoverFacts(Protocol):
    """What the table reads of the hub."""

    @property
    def hub(self) -> str:
        """The name of this hub."""

    @property
    def version(self) -> int:
        """Of the plan that this hub goes by."""

    @property
    def is_introduced(self) -> bool:
        """Whether every live hub has introduced itself: before that nothing may be numbered here."""

    @property
    def is_barrier_passed(self) -> bool:
        """Whether every live hub has offered all streams that leave it under the present plan."""


# Events.


class PlanApplied(NamedTuple):
    """plan"""

    home: str | None
    # Whether the topic was simply open here and has no subscriber at any hub.
    is_unused: bool = False


class PrepareReceived(NamedTuple):
    """PREPARE"""

    hub: str
    version: int


class PreparedReceived(NamedTuple):
    """PREPARED"""

    hub: str
    version: int


class SlotFree(NamedTuple):
    """a slot for closing is free"""

    hub: str
    version: int


class AnswerOverdue(NamedTuple):
    """PREPARED is overdue"""


class CloseReceived(NamedTuple):
    """CLOSE"""

    hub: str
    epoch: int
    n: int


class CancelReceived(NamedTuple):
    """CANCEL"""

    hub: str
    version: int


class OpenedReceived(NamedTuple):
    """OPENED"""

    # The hub that numbered the epoch before.
    former_hub: str


class HubDied(NamedTuple):
    """a hub died, or its link began anew"""

    hub: str


class Progressed(NamedTuple):
    """review"""

    # Whether subscribers by pattern wait here for parts of the stream that come before others.
    is_behind: bool = False


HandoverEvent: TypeAlias = (
    PlanApplied
    | PrepareReceived
    | PreparedReceived
    | SlotFree
    | AnswerOverdue
    | CloseReceived
    | CancelReceived
    | OpenedReceived
    | HubDied
    | Progressed
)
