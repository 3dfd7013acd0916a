"""Messages without a position yet: payloads or losses, reasons to wait, destinations. Pure values.

`stream/admission` has the stages and the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from equipoise.stream.parts import Dependency

__all__ = [
    "GONE",
    "NOWHERE",
    "Ack",
    "Budget",
    "Gate",
    "NextHop",
    "Path",
    "Submission",
    "Unresolved",
    "WaitReason",
]

# The hubs that messages have passed through, by name and incarnation, the latest last; empty for this hub's clients.
Path = tuple[tuple[str, int], ...]
# The path of messages whose sender is dead: no hub waits for their acknowledgement.
GONE: Path = (("", 0),)
# The position of a message that never gets one.
NOWHERE = (0, 0)

# Memory of a submission beside its payloads, and of a payload beside its bytes: 374 and 41 by tracemalloc, rounded up.
SUBMISSION_BYTES = 400
PAYLOAD_BYTES = 50


class WaitReason(Enum):
    """The reason why messages wait: the first stage that holds them."""

    HOME = "home"
    LINK = "link"
    PLAN = "plan"
    DEPENDENCY = "dependency"
    ACKS = "acks"
    ROUTE = "route"
    TOKENS = "tokens"
    APPEND = "append"

    __hash__ = object.__hash__

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    WaitReason.HOME: "the topic has no known home",
    WaitReason.LINK: "there is no link to the home",
    WaitReason.PLAN: "the sender has a later plan than this hub",
    WaitReason.DEPENDENCY: "a dependency in another stream of the topic is missing",
    WaitReason.ACKS: "earlier messages to another hub are not acknowledged",
    WaitReason.ROUTE: "publishers of this hub change to another stream of the topic",
    WaitReason.TOKENS: "the topic's rate limit has no tokens",
    WaitReason.APPEND: "no quorum has stored them",
}


class Submission(NamedTuple):
    """Messages without a position yet, or the loss of some."""

    path: Path
    # The sender's version of the plan: under an older plan, this hub would only send them back.
    version: int
    payloads: Sequence[bytes]
    # Dependencies of the first message, in other streams of the topic.
    after: Sequence[Dependency] = ()
    # Number of lost messages, in place of payloads.
    lost: int = 0
    # Whether some of these may have arrived.
    is_doubtful: bool = False
    # Sequence of the first message, assigned by the hub whose clients published it; 0: none.
    sequence: int = 0

    @property
    def messages(self) -> int:
        return self.lost or len(self.payloads)

    @property
    def size(self) -> int:
        """Memory in bytes; 0 for a loss."""
        payloads = self.payloads
        return SUBMISSION_BYTES + PAYLOAD_BYTES * len(payloads) + sum(map(len, payloads)) if payloads else 0

    def singly(self) -> Iterator[Submission]:
        """Its messages, or losses, one by one."""
        after = self.after
        for i in range(self.messages):
            yield self._replace(
                payloads=self.payloads[i : i + 1], after=after, lost=int(self.lost > 0), sequence=0
            )
            after = ()


class Unresolved(NamedTuple):
    """Messages in flight of which some, or the acknowledgements of some, were lost with a link."""

    # Ticket of the RECOUNT to the target hub, and whether its reply has arrived.
    ticket: int
    is_counted: bool
    messages: int
    # Whether messages may be lost, and whether acknowledgements may.
    may_be_lost: bool
    may_be_acked: bool


class Ack(NamedTuple):
    """An acknowledgement to send to the hub or client that messages came from.

    Epoch 0: they get no position. Then n is the epoch in which they are lost, if a later epoch shows that to
    subscribers; else 0.
    """

    path: Path
    messages: int
    epoch: int
    n: int


class NextHop(NamedTuple):
    """The current destination of messages."""

    # Whether this hub numbers them.
    is_here: bool
    # Otherwise the next hub, and the term in which they are sent there; None: unknown.
    way: tuple[str, int] | None = None
    is_up: bool = True
    # Version of the plan under which messages are forwarded; None if irrelevant.
    version: int | None = None


# A further stage: returns the reason why a submission has to wait, or None. Code that adds a gate drains the stream
# when the gate opens.
Gate = Callable[[Submission, NextHop], "WaitReason | None"]


class Budget:
    """The bytes that may wait at one hub, in all streams together."""

    __slots__ = ("bytes_max", "messages", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.messages = 0

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.bytes_max
