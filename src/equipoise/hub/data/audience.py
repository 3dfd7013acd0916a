"""Compile who receives a topic's messages, in which form; then publishing is a few C-level loops.

Subscribers that take the same forms of a message (by name in RESP2, by name and by one pattern in RESP3, …) are one
group: each run of messages is encoded once per group and the same bytes object is written to every member. A
subscriber that takes several forms gets them message by message, as from Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.cluster.link.codec import egress_encoder
from equipoise.hub.data.kinds import Kind
from equipoise.resp.frames import Encoder, plain_encoder, positioned_encoder

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic, TopicIndex

# A form of delivery: protocol version, kind, and the pattern if it came by one.
Form = tuple[int, Kind, bytes | None]


class Audience:
    """Frozen at compilation; thrown away when members change, or patterns that match the topic.

    Telemetry lets the audiences of topics without traffic rest, so that the hot path, which has to look at the version
    anyway, goes through `HubCore.audience_of` once when there is traffic again.
    """

    __slots__ = (
        "clients",
        "encode_for_hubs",
        "groups",
        "hubs",
        "is_exclusive",
        "mixed",
        "receivers",
        "version",
    )

    def __init__(
        self,
        groups: list[tuple[Encoder, list[Session]]],
        mixed: list[tuple[list[Encoder], list[Session]]],
        receivers: int,
        version: int,
    ) -> None:
        # A version of the index that this is right for; its complement while the audience rests.
        self.version = version
        # Subscribers that get a message in one form; and those that get it in several.
        self.groups = groups
        self.mixed = mixed
        # What PUBLISH answers: subscriptions that match, patterns counted one by one.
        self.receivers = receivers
        # Connections that get the topic, by however many subscriptions.
        self.clients = sum(len(sessions) for _, sessions in (*groups, *mixed))
        # Links to the hubs that follow, and the form they take.
        self.hubs: list[OutLink] = []
        self.encode_for_hubs: Encoder = _nothing
        # Whether every member has this one subscription and no other.
        self.is_exclusive = False

    def rest(self) -> None:
        """Let the next use be noticed: an audience that rests looks stale until `wake` is asked."""
        if self.version >= 0:
            self.version = ~self.version

    def wake(self, topic: Topic, index: TopicIndex) -> bool:
        """Whether it is as good as when it was compiled: it only rested, or no pattern of the topic has changed."""
        compiled_at = self.version if self.version >= 0 else ~self.version
        if index.is_concerned(topic, compiled_at):
            return False
        self.version = index.version
        return True


def compile_audience(topic: Topic, index: TopicIndex) -> Audience:
    forms_of = _forms_by_name(topic)
    if not topic.is_shard:
        index.match(topic)
        for pattern in topic.patterns:
            for session, kinds in pattern.members.items():
                # The pattern was allowed as a whole; this holds even if that judgement were wrong.
                if session.may(Action.SUBSCRIBE, topic.name):
                    forms = forms_of.setdefault(session, [])
                    forms.extend((session.proto, kind, pattern.glob.pattern) for kind in kinds)
    grouped: dict[tuple[Form, ...], list[Session]] = {}
    for session, forms in forms_of.items():
        grouped.setdefault(tuple(forms), []).append(session)
    encoder_of = _encoder_cache(topic)
    groups = [(encoder_of(forms[0]), members) for forms, members in grouped.items() if len(forms) == 1]
    mixed = [
        ([encoder_of(form) for form in forms], members)
        for forms, members in grouped.items()
        if len(forms) > 1
    ]
    audience = Audience(groups, mixed, sum(map(len, forms_of.values())), index.version)
    relays = _relays(topic, index)
    # Somebody who is here by a pattern has one subscription to many topics; behind a link there may be anybody.
    audience.is_exclusive = (
        not mixed
        and not relays
        and topic.beside is None
        and len(forms_of) == len(topic.members)
        and all(session.subscriptions_held == 1 for session in forms_of)
    )
    if relays:
        audience.hubs = relays
        audience.encode_for_hubs = egress_encoder(topic.key, topic.epoch, index.payload_bytes_max)
    return audience


def _nothing(first: int, payloads: Sequence[bytes]) -> bytes:
    return b""


def _forms_by_name(topic: Topic) -> dict[Session, list[Form]]:
    """Who subscribes by name, but those that get this one of the topic's streams elsewhere."""
    absent = () if topic.beside is None else topic.beside.absent
    forms_of: dict[Session, list[Form]] = {}
    for session, kinds in topic.members.items():
        forms: list[Form] = [
            (session.proto, kind, None) for kind in kinds if kind is not Kind.OWN or session not in absent
        ]
        if forms:
            forms_of[session] = forms
    return forms_of


def _relays(topic: Topic, index: TopicIndex) -> list[OutLink]:
    """Links to the hubs that follow the topic, or hear it by a pattern: that is for its home to see to."""
    links = dict(topic.relays or {})
    if topic.lane:
        # Who hears the topic by a pattern follows its lanes by name.
        return list(links)
    if topic.is_home:
        for pattern in topic.pattern_relays:
            links.update(pattern.relays)
    return list(links)


def _encoder_cache(topic: Topic) -> Callable[[Form], Encoder]:
    made: dict[Form, Encoder] = {}

    def encoder_of(form: Form) -> Encoder:
        encoder = made.get(form)
        if encoder is None:
            proto, kind, pattern = form
            names = (topic.name,) if pattern is None else (pattern, topic.name)
            if kind.is_positioned and topic.lane:
                encoder = positioned_encoder(topic.epoch, kind.lane_message, *names, topic.lane)
            elif kind.is_positioned:
                encoder = positioned_encoder(topic.epoch, kind.message, *names)
            else:
                encoder = plain_encoder(proto, kind.message, *names)
            made[form] = encoder
        return encoder

    return encoder_of
