"""The receivers of a topic's messages, by format, compiled so that publishing runs in few C-level loops.

Subscribers that take the same forms of a message (by name in RESP2, by name and by one pattern in RESP3, …) are one
group: each run of messages is encoded once per group and the same bytes object is written to every member. All
others are served by a stage. `topic` compiles audiences and delivers to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.resp.replies import Encoder, integer

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic import Topic

__all__ = ["Audience", "RunNotes", "Stage"]


class RunNotes(Protocol):
    """What the backlogs note of the run that is being written."""

    # Messages in the piece that is written next.
    messages: int


class Stage(Protocol):
    """Subscribers of one topic that one write of one encoding does not serve: see `topic.MixedForms`."""

    @property
    def sessions(self) -> Collection[Subscriber]: ...

    def deliver(self, backlogs: RunNotes, topic: Topic, first: int, payloads: Sequence[bytes]) -> None:
        """Write a run of messages, the first of them at position `first`; count the bytes on the topic."""


class Audience:
    """Frozen at compilation; thrown away when members change, or patterns that match the topic.

    Telemetry lets the audiences of topics without traffic rest, so that the hot path, which has to look at the version
    anyway, goes through `HubCore.audience_of` once when there is traffic again.
    """

    __slots__ = (
        "elsewhere",
        "encode_for_hubs",
        "groups",
        "hubs",
        "is_exclusive",
        "is_plain",
        "narrow_hubs",
        "receivers",
        "reply",
        "stages",
        "version",
    )

    def __init__(
        self,
        groups: list[tuple[Encoder, list[Subscriber]]],
        stages: Sequence[Stage],
        hubs: list[OutLink],
        narrow_hubs: list[OutLink],
        encode_for_hubs: Encoder,
        *,
        receivers: int,
        elsewhere: int,
        version: int,
        has_own_replies: bool = False,
    ) -> None:
        # A version of the index that this is right for; its complement while the audience rests.
        self.version = version
        # Subscribers that get the same bytes; and all others.
        self.groups = groups
        self.stages = stages
        # Links to the hubs that follow the topic, and the form they take.
        self.hubs = hubs
        self.encode_for_hubs = encode_for_hubs
        # Links to those that follow it by filters: see hub/content/hub_filters.py.
        self.narrow_hubs = narrow_hubs
        # Whether the groups are all there is: the one comparison that stages and hubs cost a topic without them.
        self.is_plain = not stages and not hubs and not narrow_hubs
        # Subscriptions at this hub that match, patterns counted one by one.
        self.receivers = receivers
        # What PUBLISH answers: those and the ones at other hubs, as of a second ago. Empty where each message has an
        # answer of its own.
        self.elsewhere = elsewhere
        self.reply = b"" if has_own_replies else integer(receivers + elsewhere)
        # Whether every member has this one subscription and no other.
        self.is_exclusive = False

    @property
    def is_heard(self) -> bool:
        """Whether a message goes to anyone."""
        return bool(self.groups or not self.is_plain)

    @property
    def common_reply(self) -> bytes:
        """The part of the answer to PUBLISH that is the same for all messages."""
        return self.reply or integer(self.receivers + self.elsewhere)

    @property
    def clients(self) -> int:
        """Connections that get the topic, by however many subscriptions; one by name and by filter counts twice."""
        return sum(map(len, self.sessions()))

    def sessions(self) -> Iterator[Collection[Subscriber]]:
        """All subscribers of each form, in collections."""
        yield from (sessions for _, sessions in self.groups)
        yield from (stage.sessions for stage in self.stages)

    def rest(self) -> None:
        """Let the next use be noticed: an audience that rests looks stale until `wake` is called."""
        if self.version >= 0:
            self.version = ~self.version

    @property
    def right_for(self) -> int:
        """The latest version of the index that it is known to be right for."""
        return self.version if self.version >= 0 else ~self.version
