"""Effects of a step in a handover, as values that the hub executes.

The docstring of an effect is what docs/reference/handover.md says that a hub does.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

__all__ = [
    "AskPlan",
    "AwaitAnswer",
    "CloseEpoch",
    "Effect",
    "End",
    "Follow",
    "Forget",
    "HandoverDone",
    "OpenEpoch",
    "QueueClose",
    "Reconsider",
    "Resume",
    "Review",
    "SendCancel",
    "SendPrepare",
    "SendPrepared",
    "StateChanged",
    "StreamState",
    "WakeDependents",
]


class StreamState(Enum):
    """What this hub is for a topic's stream."""

    OPEN = "open"
    """The topic's home is here: messages get their positions here."""
    CLOSING = "closing"
    """The home is still here; PREPARE was sent to the next home."""
    OPENING = "opening"
    """The home will be here: messages are held until it is certain that no other hub numbers them."""
    REMOTE = "remote"
    """The home is another hub: messages are forwarded, and its stream is followed if this hub has subscribers."""

    __hash__ = object.__hash__

    # Whether messages get their positions here.
    is_home: bool

    def __init__(self, word: str) -> None:
        self.is_home = word in ("open", "closing")


# Where an epoch ended: the hub that numbered it, epoch and n. Epoch 0: it is not known.
End: TypeAlias = tuple[str, int, int]


class StateChanged(NamedTuple):
    """change the audience and the redirects of the topic to the new state"""

    before: StreamState
    after: StreamState


class SendPrepare(NamedTuple):
    """send PREPARE to the next home"""

    hub: str
    version: int


class SendPrepared(NamedTuple):
    """send PREPARED to the hub that offers the topic"""

    hub: str
    version: int


class SendCancel(NamedTuple):
    """send CANCEL to the hub that was asked"""

    hub: str
    version: int


class AwaitAnswer(NamedTuple):
    """set a timer: a hub that does not answer is asked again"""


class QueueClose(NamedTuple):
    """wait for a slot, so that few topics are closed at once"""

    hub: str
    version: int


class CloseEpoch(NamedTuple):
    """end the epoch: attach to the new home if a subscriber here wants the topic, then send it CLOSE with the end"""

    hub: str


class OpenEpoch(NamedTuple):
    """begin an epoch that names the end of the former one, if it is known; send OPENED to all who get the stream"""

    after: End


class Follow(NamedTuple):
    """follow the stream at its home, if a subscriber here wants it"""


class AskPlan(NamedTuple):
    """ask the plan again where the topic's home is, and say DONE if that was the last topic to wait for"""


class Reconsider(NamedTuple):
    """look at the offer that waited, as if it came now"""

    hub: str
    version: int


class Review(NamedTuple):
    """see what else has become possible"""


class Resume(NamedTuple):
    """answer subscribers and hubs that wait for the stream, pass on messages that were held"""


class Forget(NamedTuple):
    """keep nothing but that the topic is open, if nothing waits for anything"""


class WakeDependents(NamedTuple):
    """let other streams of the topic go on that wait for this one"""


class HandoverDone(NamedTuple):
    """count the handover as done, on the side that gave the topic and on the side that took it"""

    is_taken: bool


Effect: TypeAlias = (
    StateChanged
    | SendPrepare
    | SendPrepared
    | SendCancel
    | AwaitAnswer
    | QueueClose
    | CloseEpoch
    | OpenEpoch
    | Follow
    | AskPlan
    | Reconsider
    | Resume
    | Review
    | Forget
    | WakeDependents
    | HandoverDone
)
