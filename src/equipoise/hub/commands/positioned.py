"""EQ.PUBLISH, EQ.SETTLE and EQ.SEVER: publishes that are acknowledged with positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.denials import denial
from equipoise.hub.access.quotas import SEVERS_PER_MINUTE_MAX
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.commands.connection import LINK_BYTES_MAX, NEEDS_RESP3
from equipoise.hub.data.reply import LATE, LOST, NO_ROOM, Reply
from equipoise.resp.replies import OK, array, bulk, error, integer, push
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

# A host name and a port.
ADDRESS_BYTES_MAX = 300
# Pending EQ.SETTLE requests of one session, at about 200 B each: as many as topics that it may move at once.
ASKED_MAX = 10_000
# Links whose end one session may await at once: one per hub that its client has lost. Further requests queue.
SEVERING_MAX = 8
_TOO_MANY = f"ERR {ASKED_MAX} requests of this connection are already pending"
_TOO_MANY_SEVERED = f"ERR {SEVERS_PER_MINUTE_MAX} links were ended within a minute for this user or address"
# Placeholder for a position that EQ.AFTER names and that is not confirmed yet.
UNCONFIRMED = (-1, -1)
_NOT_CONFIRMED = "TRYAGAIN the position that EQ.AFTER names is not confirmed yet"


def publish(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Publish to one topic; the reply is sent when the last message has its position, whichever hub is the home."""
    tags = None if session.tags is None else session.tags.get(command[1])
    if tags is not None and UNCONFIRMED in tags.values():
        return _NOT_CONFIRMED
    topic = core.topic_to_publish(session, command[1])
    if isinstance(topic, str):
        return topic
    payloads = command[2:]
    if topic.is_watched:
        core.metering.arrivals.note(topic, payloads)
    if session.subscriptions is not None:
        # The client may receive its own message: write the gathered replies before it.
        session.flush()
    cluster = core.cluster
    if tags is not None and session.tags is not None:
        del session.tags[topic.name]
    after = [Tag(stream, *at) for stream, at in (tags or {}).items()]
    if topic.limit is not None:

        def receipt(at: Tag, is_lost: bool) -> bytes:
            return error(LOST) if is_lost else _receipt(at, core.audience_of(topic).receivers)

        return cluster.limits.submit_positioned(topic, payloads, after, receipt)
    if topic.log is not None:
        return topic.log.publish_positioned(
            payloads, lambda epoch, n, receivers: _receipt(Tag(TRUNK, epoch, n), receivers)
        )
    if topic.stream is None and not tags:
        receivers = core.publish(topic, payloads)
        return _receipt(Tag(TRUNK, topic.epoch, topic.n), receivers)
    if not cluster.admit(topic, payloads, after):
        return NO_ROOM
    receivers = core.audience_of(topic).receivers
    reply = Reply(expired=lambda: error(LATE))
    cluster.receipts.when_acked(
        topic,
        len(payloads),
        lambda at, is_lost: reply.complete(error(LOST) if is_lost else _receipt(at, receivers)),
    )
    return reply


def settle(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """Push `eq.settled` when all messages that this hub's clients have published to the topic have positions."""
    if session.proto != 3:
        return NEEDS_RESP3
    name = command[1]
    if len(name) <= core.limits.topic_bytes_max and not session.may(Action.PUBLISH, name):
        return denial(session, Action.PUBLISH, name)
    topic = core.index.topics.get(name)

    def settled(at: Tag, is_lost: bool) -> None:
        words = (bulk(b"eq.settled"), bulk(name), bulk(at.stream))
        _push_settled(core, session, push((*words, integer(at.epoch), integer(at.n)), 3))

    if not _may_settle(core, session):
        return _TOO_MANY
    if topic is None:
        settled(Tag(TRUNK, 0, 0), False)
    elif session.deferred is None:
        core.cluster.receipts.when_acked(topic, None, settled)
    else:
        session.deferred.after(name, lambda: core.cluster.receipts.when_acked(topic, None, settled))
    return OK


def sever(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Push `eq.severed` when no more messages can arrive over the client's own link to the hub at an address."""
    if session.proto != 3:
        return NEEDS_RESP3
    link, address = command[1], command[2]
    if len(link) > LINK_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
        return "ERR syntax error: EQ.SEVER link address"

    if not core.quotas.may_sever(session.owner, core.now()):
        return _TOO_MANY_SEVERED
    severing = core.cluster.severing

    def severed() -> None:
        left = severing.waiting.pop(session) - 1
        if left:
            severing.waiting[session] = left
        if not session.is_closing:
            session.write(push((bulk(b"eq.severed"), bulk(link)), 3))
        begin_next = severing.next.pop(session, None)
        if begin_next is not None:
            begin_next()

    def begin() -> None:
        severing.waiting[session] = severing.waiting.get(session, 0) + 1
        severing.sever(link, address, severed)

    if severing.waiting.get(session, 0) < SEVERING_MAX:
        begin()
        return OK
    reply = Reply(abandoned=lambda: severing.next.pop(session, None))

    def begin_later() -> None:
        begin()
        reply.complete(OK)

    severing.next[session] = begin_later
    return reply


def _may_settle(core: HubCore, session: Session) -> bool:
    pending = core.cluster.receipts.pending
    if pending.get(session, 0) >= ASKED_MAX:
        return False
    pending[session] = pending.get(session, 0) + 1
    return True


def _push_settled(core: HubCore, session: Session, frame: bytes) -> None:
    """Push the result of an EQ.SETTLE, if the client is still connected."""
    pending = core.cluster.receipts.pending
    if session in pending:
        pending[session] -= 1
        if not pending[session]:
            del pending[session]
    if not session.is_closing:
        session.write(frame)


def _receipt(at: Tag, receivers: int) -> bytes:
    return array((bulk(at.stream), integer(at.epoch), integer(at.n), integer(receivers)))
