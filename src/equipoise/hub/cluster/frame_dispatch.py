"""What the frames of other hubs mean here: read the fields, find the topic, hand it to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.dependencies import Tag, parse_tags
from equipoise.hub.cluster.ingress import NOWHERE
from equipoise.hub.cluster.link.codec import Field, Verb, read_path
from equipoise.hub.cluster.streams import Held, Stream
from equipoise.hub.data.topics import LANE_PREFIX

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.topics import Topic

__all__ = ["Hearing"]


class Hearing:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._handlers: dict[Verb, Callable[[str, list[Field], list[bytes]], None]] = {
            Verb.INGRESS: self._on_ingress,
            Verb.NUMBERED: self._on_numbered,
            Verb.RECOUNT: self._on_recount,
            Verb.RECOUNTED: self._on_recounted,
            Verb.ATTACH: self._on_attach,
            Verb.DETACH: self._on_detach,
            Verb.ATTACHED: self._on_attached,
            Verb.EGRESS: self._on_egress,
            Verb.PATTERN: lambda peer, f, _: self._cluster.patterns.added(peer, _name(f[0]), _number(f[1])),
            Verb.NOPATTERN: lambda peer, f, _: self._cluster.patterns.removed(peer, _name(f[0])),
            Verb.PATTERNED: lambda peer, f, _: self._cluster.patterns.confirmed(
                peer, _name(f[0]), _number(f[1])
            ),
            Verb.DONE: self._on_done,
            Verb.DEAD: lambda _, f, __: self._cluster.hear_of_death((_name(f[0]).decode(), _number(f[1]))),
            Verb.PREPARE: self._on_prepare,
            Verb.PREPARED: self._on_prepared,
            Verb.CANCEL: self._on_cancel,
            Verb.CLOSE: self._on_close,
            Verb.FLUSH: self._on_flush,
            Verb.ENDED: self._on_ended,
            Verb.OPENED: self._on_opened,
            Verb.AFTER: self._on_after,
            Verb.SETTLED: lambda peer, f, _: self._cluster.lanes.heard_settled(peer, _number(f[0])),
            Verb.ASK: lambda peer, f, _: self._cluster.asking.asked(
                peer, _name(f[0]), self._find(_name(f[0]))
            ),
            Verb.AT: self._on_at,
            Verb.FOLLOW: self._on_follow,
            Verb.OVER: self._on_over,
            Verb.LANE: lambda peer, f, _: self._cluster.lanes.heard_lane(peer, _name(f[0])),
            Verb.PROBE: lambda peer, f, _: self._cluster.core.places.probing.asked(
                self._cluster, peer, _number(f[0])
            ),
            Verb.ECHO: lambda peer, f, _: self._cluster.core.places.probing.heard(
                self._cluster, peer, _number(f[0]), _name(f[1])
            ),
            Verb.SEVER: lambda peer, f, _: self._cluster.receipts.asked_to_sever(peer, _name(f[0])),
            Verb.SEVERED: lambda peer, f, _: self._cluster.receipts.severed(peer, _name(f[0])),
        }

    def hear(self, peer: str, verb: Verb, fields: list[Field], payloads: list[bytes]) -> None:
        """Do what a frame says; its shape has been checked."""
        self._handlers[verb](peer, fields, payloads)

    def _on_ingress(self, peer: str, fields: list[Field], payloads: list[bytes]) -> None:
        cluster, name = self._cluster, _name(fields[0])
        path = (*read_path(_name(fields[2])), (peer, cluster.out[peer].incarnation))
        topic = self._find(name, is_made=True)
        if topic is None:
            cluster.ingress.dropped += len(payloads)
            cluster.tell_numbered(path, name, len(payloads), NOWHERE)
        else:
            tags = parse_tags(_name(fields[3]))
            cluster.ingress.give(topic, Held(path, _number(fields[1]), payloads, tags))

    def _on_numbered(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        if stream is not None:
            path, at = read_path(_name(fields[1])), (_number(fields[3]), _number(fields[4]))
            self._cluster.ingress.numbered(stream, peer, path, _number(fields[2]), at)
            self._cluster.handover.progressed(stream)

    def _on_recount(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        path = (*read_path(_name(fields[1])), (peer, self._cluster.out[peer].incarnation))
        count = 0 if stream is None else self._cluster.ingress.outstanding(stream, path)
        self._cluster.tell(peer, Verb.RECOUNTED, *fields, count)

    def _on_recounted(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        if stream is not None:
            path, ticket = read_path(_name(fields[1])), _number(fields[2])
            self._cluster.ingress.recounted(stream, peer, path, ticket, _number(fields[3]))
            self._cluster.handover.progressed(stream)

    def _on_attach(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        topic, link = self._find(_name(fields[0]), is_made=True), self._cluster.out.get(peer)
        if topic is None or link is None:
            return
        stream = topic.stream
        if stream is None or stream.state.is_home:
            self._cluster.take_in(topic, link, _number(fields[1]))
        else:
            stream.relays_waiting[link] = _number(fields[1])

    def _on_detach(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        topic, link = self._find(_name(fields[0])), self._cluster.out.get(peer)
        if topic is None or link is None:
            return
        if topic.relays and link in topic.relays:
            self._cluster.core.index.remove_relay(topic, link)
        if topic.stream is not None:
            topic.stream.relays_waiting.pop(link, None)

    def _on_attached(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        epoch = self._epoch(fields[2])
        stream = self._stream(fields)
        if stream is not None and not stream.state.is_home and stream.ticket == _number(fields[1]):
            self._cluster.merging.attached(stream, peer, epoch, _number(fields[3]))

    def _on_egress(self, peer: str, fields: list[Field], payloads: list[bytes]) -> None:
        epoch = self._epoch(fields[1])
        stream = self._heard(_name(fields[0]))
        if stream is not None and not stream.state.is_home:
            self._cluster.merging.egress(stream, peer, epoch, _number(fields[2]), payloads)

    def _on_done(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        self._cluster.barrier.heard(peer, (_number(fields[0]), _number(fields[1])), _number(fields[2]))

    def _on_prepare(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        topic, version = self._find(_name(fields[0]), is_made=True), _number(fields[1])
        if topic is None:
            self._cluster.handover.refuse(_name(fields[0]), peer, version)
        elif topic.stream is not None:
            self._cluster.handover.asked(topic.stream, peer, version)
        else:
            self._cluster.tell(peer, Verb.PREPARED, topic.name, version)

    def _on_prepared(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        if stream is not None:
            self._cluster.handover.answered(stream, peer, _number(fields[1]))

    def _on_cancel(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        self._cluster.handover.forget_offers(peer, _name(fields[0]))
        if stream is not None:
            self._cluster.handover.cancelled(stream, peer, _number(fields[1]))

    def _on_close(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        epoch = self._epoch(fields[1])
        stream = self._stream(fields)
        if stream is not None:
            self._cluster.handover.ended(stream, peer, epoch, _number(fields[2]))

    def _on_flush(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        """Whoever asks has heard that the epoch is closed: all of it was written before this is."""
        self._cluster.tell(peer, Verb.ENDED, _name(fields[0]), _number(fields[1]))

    def _on_ended(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        if stream is not None:
            self._cluster.merging.ended(stream, peer, _number(fields[1]))

    def _on_opened(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        epoch = self._epoch(fields[1])
        stream = self._heard(_name(fields[0]))
        if stream is not None and not stream.state.is_home:
            after = (_name(fields[2]).decode(), _number(fields[3]), _number(fields[4]))
            self._cluster.moves.opened(stream)
            self._cluster.merging.opened(stream, peer, epoch, after)

    def _epoch(self, field: Field) -> int:
        """An epoch that another hub has given out: those that are opened here are later."""
        epoch = _number(field)
        self._cluster.core.note_epoch(epoch)
        return epoch

    def _on_after(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._heard(_name(fields[0]))
        if stream is not None and not stream.state.is_home:
            mark = Tag(_name(fields[2]), _number(fields[3]), _number(fields[4]))
            self._cluster.merging.depends(stream, peer, _number(fields[1]), mark)

    def _on_at(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        at = (_number(fields[1]), _number(fields[2]))
        self._cluster.asking.answered(peer, _name(fields[0]), at, is_there=bool(fields[3]))

    def _on_follow(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        link = self._cluster.out.get(peer)
        if link is not None:
            self._cluster.lanes.heard_follow(link, _name(fields[0]), _number(fields[1]), _number(fields[2]))

    def _on_over(self, peer: str, fields: list[Field], _: list[bytes]) -> None:
        stream = self._stream(fields)
        if stream is not None and not stream.state.is_home:
            self._cluster.merging.over(stream, peer, _number(fields[1]), _number(fields[2]))

    def _stream(self, fields: list[Field]) -> Stream | None:
        topic = self._find(_name(fields[0]))
        return None if topic is None else topic.stream

    def _find(self, key: bytes, *, is_made: bool = False) -> Topic | None:
        """A topic, made if need be, or a lane that there is; told what became of other hubs."""
        core = self._cluster.core
        topic: Topic | None
        if key.startswith(LANE_PREFIX):
            topic = core.index.lanes.get(key)
        else:
            topic = core.make_topic(key) if is_made else core.index.topics.get(key)
        if topic is not None:
            self._cluster.news.tell(topic)
        return topic

    def _heard(self, name: bytes) -> Stream | None:
        """The stream of a topic that is told to us; made if it is by a pattern of our clients that we hear it."""
        topic = self._find(name)
        if topic is None and not name.startswith(LANE_PREFIX) and self._cluster.listening.hears(name):
            topic = self._find(name, is_made=True)
        return None if topic is None else topic.stream


def _name(field: Field) -> bytes:
    assert isinstance(field, bytes), "the table of frames says so"
    return field


def _number(field: Field) -> int:
    assert isinstance(field, int), "the table of frames says so"
    return field
