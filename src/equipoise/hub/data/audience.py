"""The subscribers that receive a topic's messages, by format, compiled so that publishing runs in few C-level loops.

Subscribers that receive a message in the same form (by name in RESP2, by one pattern in RESP3, …) are one group: each
run of messages is encoded once per group, and the same bytes object is written to every member. Stages deliver to all
other subscribers. `topic` compiles audiences and delivers to them.
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
    """What the backlogs record about the run that is being written."""

    # Messages in the piece that is written next.
    messages: int


class Stage(Protocol):
    """Subscribers of one topic that need more than one write of one shared encoding: see `topic.MixedForms`."""

    @property
    def sessions(self) -> Collection[Subscriber]: ...

    def deliver(self, backlogs: RunNotes, topic: Topic, first: int, payloads: Sequence[bytes]) -> None:
        """Write a run of messages, the first of them at position `first`; count the bytes on the topic."""


class Audience:
    """Immutable but for `version`; discarded when the topic's members or the patterns that match it change.

    Telemetry marks the audience of a topic without traffic as resting. The version check of the hot path then fails
    once when traffic resumes, and `HubCore.audience_of` notifies telemetry.
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
        # A version of the index for which the audience is current; its complement (~) while the audience rests.
        self.version = version
        # Groups of subscribers that receive the same bytes; and the stages for all others.
        self.groups = groups
        self.stages = stages
        # Links to the hubs that follow the topic, and the encoder of their frames.
        self.hubs = hubs
        self.encode_for_hubs = encode_for_hubs
        # Links to the hubs that follow the topic by filters only: see hub/content/hub_filters.py.
        self.narrow_hubs = narrow_hubs
        # Whether there are only groups: the one check that a topic without stages and hubs pays for them.
        self.is_plain = not stages and not hubs and not narrow_hubs
        # Subscriptions at this hub that match, patterns counted one by one.
        self.receivers = receivers
        # The matching subscriptions at other hubs, as of a second ago; and the reply to PUBLISH: the sum of both. The
        # reply is empty where each message has its own count.
        self.elsewhere = elsewhere
        self.reply = b"" if has_own_replies else integer(receivers + elsewhere)
        # Whether every member has this one subscription and no other.
        self.is_exclusive = False

    @property
    def is_heard(self) -> bool:
        """Whether the audience has any receiver."""
        return bool(self.groups or not self.is_plain)

    @property
    def common_reply(self) -> bytes:
        """The reply to PUBLISH, without the receivers by filter, whose number differs by message."""
        return self.reply or integer(self.receivers + self.elsewhere)

    @property
    def clients(self) -> int:
        """Connections that receive the topic; one that subscribes both by name and by filter counts twice."""
        return sum(map(len, self.sessions()))

    def sessions(self) -> Iterator[Collection[Subscriber]]:
        """All subscribers, one collection per group or stage."""
        yield from (sessions for _, sessions in self.groups)
        yield from (stage.sessions for stage in self.stages)

    def rest(self) -> None:
        """Make the audience look stale, so that its next use goes through `HubCore.audience_of`."""
        if self.version >= 0:
            self.version = ~self.version

    @property
    def right_for(self) -> int:
        """The latest version of the index for which the audience is known to be current."""
        return self.version if self.version >= 0 else ~self.version
