"""Compile who receives a topic's messages, in which form; then publishing is a few C-level loops.

Subscribers that take the same forms of a message (by name in RESP2, by name and by one pattern in RESP3, …) are one
group: each run of messages is encoded once per group and the same bytes object is written to every member. A
subscriber that takes several forms gets them message by message, as from Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.kinds import Kind
from equipoise.resp.frames import Encoder, plain_encoder, positioned_encoder

if TYPE_CHECKING:
    from equipoise.hub.session import Session
    from equipoise.hub.topics import Topic, TopicIndex

# A form of delivery: protocol version, kind, and the pattern if it came by one.
Form = tuple[int, Kind, bytes | None]


class Audience:
    """Frozen at compilation; thrown away when members or patterns change."""

    __slots__ = ("groups", "is_exclusive", "mixed", "receivers", "version")

    def __init__(
        self,
        groups: list[tuple[Encoder, list[Session]]],
        mixed: list[tuple[list[Encoder], list[Session]]],
        receivers: int,
        version: int,
    ) -> None:
        # The index's version that this was compiled under.
        self.version = version
        # Subscribers that get a message in one form; and those that get it in several.
        self.groups = groups
        self.mixed = mixed
        # What PUBLISH answers: subscriptions that match, patterns counted one by one.
        self.receivers = receivers
        # Whether every member has this one subscription and no other.
        self.is_exclusive = not mixed and all(
            session.has_one_subscription for _, sessions in groups for session in sessions
        )


def compile_audience(topic: Topic, index: TopicIndex) -> Audience:
    forms_of: dict[Session, list[Form]] = {
        session: [(session.proto, kind, None) for kind in kinds] for session, kinds in topic.members.items()
    }
    if not topic.is_shard:
        for pattern in index.patterns.matching(topic.name):
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
    if len(forms_of) != len(topic.members):
        # Somebody is here by a pattern, which is one subscription to many topics.
        audience.is_exclusive = False
    return audience


def _encoder_cache(topic: Topic) -> Callable[[Form], Encoder]:
    made: dict[Form, Encoder] = {}

    def encoder_of(form: Form) -> Encoder:
        encoder = made.get(form)
        if encoder is None:
            proto, kind, pattern = form
            names = (topic.name,) if pattern is None else (pattern, topic.name)
            if kind.is_positioned:
                encoder = positioned_encoder(topic.epoch, kind.message, *names)
            else:
                encoder = plain_encoder(proto, kind.message, *names)
            made[form] = encoder
        return encoder

    return encoder_of
