"""Effects of a step in a handover, as values that the hub executes.

The docstrings of effects are texts of docs/reference/handover.md.
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
    """This hub's role for a topic's stream."""

    OPEN = "open"
    """This hub is the topic's home and numbers messages."""
    CLOSING = "closing"
    """This hub is still the home; it has sent PREPARE to the next home."""
    OPENING = "opening"
    """This hub is the next home: it holds messages until it is certain that no other hub numbers them."""
    REMOTE = "remote"
    """The home is another hub: messages are forwarded, and its stream is followed if this hub has subscribers."""

    __hash__ = object.__hash__

    # Whether this hub numbers messages.
    is_home: bool

    def __init__(self, word: str) -> None:
        self.is_home = word in ("open", "closing")


# The end of an epoch: the hub that numbered it, epoch and n. Epoch 0: unknown.
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
    """send CANCEL to the hub that received the offer"""

    hub: str
    version: int


class AwaitAnswer(NamedTuple):
    """set a timer, which repeats the offer until the hub replies"""


class QueueClose(NamedTuple):
    """wait for a slot, so that few topics are closed at once"""

    hub: str
    version: int


class CloseEpoch(NamedTuple):
    """end the epoch: attach to the new home if a subscriber here needs the topic, then send it CLOSE with the end"""

    hub: str


class OpenEpoch(NamedTuple):
    """begin an epoch that names the end of the former one, if it is known; send OPENED to all followers"""

    after: End


class Follow(NamedTuple):
    """follow the stream at its home, if a subscriber here needs it"""


class AskPlan(NamedTuple):
    """look up the topic's home in the plan again, and send DONE if this was the last topic to wait for"""


class Reconsider(NamedTuple):
    """handle the pending offer, as if it arrived now"""

    hub: str
    version: int


class Review(NamedTuple):
    """review the stream again"""


class Resume(NamedTuple):
    """confirm waiting subscribers and followers, send messages that were held"""


class Forget(NamedTuple):
    """remove the state of the stream, if nothing is pending"""


class WakeDependents(NamedTuple):
    """wake other streams of the topic that wait for this one"""


class HandoverDone(NamedTuple):
    """count the handover as done, at the former and at the next home"""

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
