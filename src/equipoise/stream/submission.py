"""Messages without a position yet: payloads or losses, reasons to wait, destinations. Pure values.

`stream/admission` has the stages, and the queue.
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

# The hubs that messages have passed, by name and incarnation, the latest last; empty for clients of this hub.
Path = tuple[tuple[str, int], ...]
# The path of messages whose sender is dead: no hub waits for their acknowledgement.
GONE: Path = (("", 0),)
# The position of a message that never gets one.
NOWHERE = (0, 0)

# What a submission takes beside its payloads, and a payload beside its bytes: 374 and 41 by tracemalloc, rounded up.
SUBMISSION_BYTES = 400
PAYLOAD_BYTES = 50


class WaitReason(Enum):
    """Why messages wait: the first stage that holds them."""

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
    """Messages on their way in, or the loss of some."""

    path: Path
    # The plan that they were sent here by: an older one would only send them back.
    version: int
    payloads: Sequence[bytes]
    # What the first of them comes after, in other streams of the topic.
    after: Sequence[Dependency] = ()
    # Messages that there was no room for, in place of payloads.
    lost: int = 0
    # Whether some of those may have arrived after all.
    is_doubtful: bool = False
    # The sequence that the hub whose clients published them gave the first of them; 0: none.
    sequence: int = 0

    @property
    def messages(self) -> int:
        return self.lost or len(self.payloads)

    @property
    def size(self) -> int:
        """Bytes of memory. A loss counts as nothing: it stands for what is not there."""
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

    # The number of the question to the hub that they went to, and whether it has said how many it has to deal with.
    ticket: int
    is_counted: bool
    messages: int
    # Whether messages may be lost, and whether acknowledgements may.
    may_be_lost: bool
    may_be_acked: bool


class Ack(NamedTuple):
    """To be carried out: acknowledge messages to where they came from.

    Epoch 0: they never get a position. Then n is the epoch in which they are lost, if subscribers learn of that by a
    later one, and 0 if not.
    """

    path: Path
    messages: int
    epoch: int
    n: int


class NextHop(NamedTuple):
    """Where messages go now."""

    # Whether they are numbered here.
    is_here: bool
    # Else: the next hub and the term in which they are sent there; None: not known.
    way: tuple[str, int] | None = None
    is_up: bool = True
    # The plan that messages are sent on by; None where that does not matter.
    version: int | None = None


# A further stage: why the submission has to wait for it, or None. Code that adds one drains the stream when it opens.
Gate = Callable[[Submission, NextHop], "WaitReason | None"]


class Budget:
    """Bytes that may wait at one hub, in all streams together."""

    __slots__ = ("bytes_max", "messages", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.messages = 0

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.bytes_max
