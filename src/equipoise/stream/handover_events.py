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
    """The state of a stream that the table reads and changes."""

    state: StreamState
    # The home, or the next home, if it is another hub. None: this hub, or no member is alive.
    peer: str | None
    # The plan's version of the last PREPARE that was sent or received.
    asked_version: int
    # The plan's version under which the topic was assigned to this hub: older plans are ignored for it.
    since_version: int
    # While opening: the hub that offers the topic, and the end of its epoch.
    preparer: str | None
    ending: End | None
    # Hub and version of an offer that cannot be accepted yet.
    pending_offer: tuple[str, int] | None
    # Counts the changes of the target of messages.
    term: int
    # The hub at which the stream is followed.
    source: str | None

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and n of the last message."""


class HandoverFacts(Protocol):
    """The state of the hub that the table reads."""

    @property
    def hub(self) -> str:
        """The name of this hub."""

    @property
    def version(self) -> int:
        """Version of the plan that this hub has applied."""

    @property
    def is_introduced(self) -> bool:
        """Whether every live hub has introduced itself: before that, this hub may number no message."""

    @property
    def is_barrier_passed(self) -> bool:
        """Whether every live hub has offered all streams that leave it under the current plan."""


# Events.


class PlanApplied(NamedTuple):
    """plan"""

    home: str | None
    # Whether the topic was open here, without a Stream, and has no subscriber at any hub.
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
    """a hub died, or its link restarted"""

    hub: str


class Progressed(NamedTuple):
    """review"""

    # Whether subscribers by pattern here wait for earlier parts of the stream.
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
