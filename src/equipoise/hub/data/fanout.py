"""Compile a topic's audience, and deliver to those of it that do not get the same bytes.

Most subscribers are in groups that get the same bytes: `HubCore.publish` writes those itself. The others are served
here, behind one comparison, `Audience.is_plain`: links to the hubs that follow the topic, and stages, one for each kind
of subscriber that one write of one encoding does not serve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.cluster.link.codec import egress_encoder
from equipoise.hub.data.audience import Audience
from equipoise.hub.data.kinds import Kind
from equipoise.resp.replies import Encoder, PlainEncoder, interleaved, positioned_encoder

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.audience import RunNotes, Stage
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topics import Topic, TopicIndex

__all__ = ["MixedForms", "compile_audience", "deliver_in_stages", "deliver_to_hubs", "own_replies"]

# A form of delivery: protocol version, kind, and the pattern if it came by one.
Form = tuple[int, Kind, bytes | None]
# A message in many forms is written in pieces of this size: what transports take before they are full.
MIXED_PIECE_BYTES = 64 * 1024


class MixedForms:
    """Subscribers that get a message in the same several forms: all of one message before the next."""

    __slots__ = ("_encoders", "sessions")

    def __init__(self, encoders: Sequence[Encoder], sessions: Sequence[Subscriber]) -> None:
        self._encoders = encoders
        self.sessions = sessions

    def deliver(self, backlogs: RunNotes, topic: Topic, first: int, payloads: Sequence[bytes]) -> None:
        """One client may have thousands of patterns that match the topic, so what a run becomes has no bound.

        It is written in pieces, and no further than a subscriber is left that takes it.
        """
        takers = self.sessions
        for frames, piece in interleaved(self._encoders, first, payloads, MIXED_PIECE_BYTES):
            backlogs.messages = frames
            topic.bytes_out += len(piece) * len(takers)
            for session in takers:
                session.write(piece)
            takers = [session for session in takers if not session.is_closing]
            if not takers:
                break


def deliver_in_stages(
    backlogs: RunNotes, topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]
) -> None:
    for stage in audience.stages:
        stage.deliver(backlogs, topic, first, payloads)


def own_replies(topic: Topic) -> bytes:
    """What PUBLISH answers for each message that was just delivered, where not all go to the same subscribers."""
    content, audience = topic.content, topic.audience
    assert content is not None and audience is not None, "the topic has filters"
    return content.replies(audience.receivers + audience.elsewhere)


def deliver_to_hubs(topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]) -> None:
    """What goes to other hubs is counted apart: it reaches clients there, and is counted as delivered there."""
    links = audience.hubs
    if not links:
        return
    data = audience.encode_for_hubs(first, payloads)
    if (meter := topic.trunk.meter) is not None:
        meter.note_egress(len(payloads) * len(links), len(data) * len(links))
    for link in links:
        link.write(data)


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
    grouped: dict[tuple[Form, ...], list[Subscriber]] = {}
    for session, forms in forms_of.items():
        grouped.setdefault(tuple(forms), []).append(session)
    encoder_of = _encoder_cache(topic)
    groups = [(encoder_of(forms[0]), members) for forms, members in grouped.items() if len(forms) == 1]
    stages: list[Stage] = [
        MixedForms([encoder_of(form) for form in forms], members)
        for forms, members in grouped.items()
        if len(forms) > 1
    ]
    content = topic.trunk.content
    if content is not None:
        stages.append(content)
    relays = _relays(topic, index)
    audience = Audience(
        groups,
        stages,
        relays,
        egress_encoder(topic.key, topic.epoch, index.payload_bytes_max) if relays else _nothing,
        receivers=sum(map(len, forms_of.values())),
        elsewhere=index.elsewhere(topic),
        version=index.version,
        has_own_replies=content is not None,
    )
    # A subscriber by pattern has one subscription to many topics; behind a link there may be any number of clients.
    audience.is_exclusive = (
        audience.is_plain
        and topic.beside is None
        and len(forms_of) == len(topic.members)
        and all(session.subscriptions_held == 1 for session in forms_of)
    )
    return audience


def _nothing(first: int, payloads: Sequence[bytes]) -> bytes:
    return b""


def _forms_by_name(topic: Topic) -> dict[Subscriber, list[Form]]:
    """Who subscribes by name, but those that get this one of the topic's streams elsewhere."""
    absent = () if topic.beside is None else topic.beside.absent
    forms_of: dict[Subscriber, list[Form]] = {}
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
                encoder = PlainEncoder(proto, kind.message, *names)
            made[form] = encoder
        return encoder

    return encoder_of
