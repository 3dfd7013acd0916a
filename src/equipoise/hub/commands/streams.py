"""EQ.OWN and EQ.AFTER: for smart clients that use several streams of one topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.hub.commands.connection import NEEDS_RESP3
from equipoise.hub.commands.positioned import UNCONFIRMED
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import objection, subscribe
from equipoise.resp.replies import OK
from equipoise.resp.requests import parse_integer
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

# Topics that the next messages of one connection may be tagged for: as many as it may well have open.
TAGGED_MAX = 1_000
_USAGE = "ERR syntax error: EQ.OWN topic [ELSEWHERE [stream ...]]"


def own(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Subscribe to a topic but for the streams that the client gets elsewhere; without a word, all but our own."""
    if session.proto != 3:
        return NEEDS_RESP3
    name, elsewhere = command[1], _elsewhere(command[2:])
    if isinstance(elsewhere, str):
        return elsewhere
    problem = objection(core, session, Kind.OWN, [name])
    if problem is not None:
        return problem
    return _subscribe_to_rest(core, session, name, elsewhere)


def after(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """The session's next EQ.PUBLISH to the topic comes after a position of another stream, if that has been given."""
    epoch, n = parse_integer(command[3]), parse_integer(command[4])
    if epoch is None or n is None or min(epoch, n) < 0:
        return "ERR epoch and n are numbers"
    topic = core.topic_to_publish(session, command[1])
    if isinstance(topic, str):
        return topic
    is_kept_to = core.cluster.named.keep_to(topic, command[2], (epoch, n))
    if is_kept_to and not (command[2] == TRUNK and topic.is_home and epoch > topic.epoch):
        return OK
    tags = session.tags = session.tags or {}
    if topic.name not in tags and len(tags) >= TAGGED_MAX:
        return f"ERR more than {TAGGED_MAX} topics with EQ.AFTER and without EQ.PUBLISH on one connection"
    stream, name = command[2], topic.name
    # Until the position is confirmed, EQ.PUBLISH to the topic is refused: it would come too early.
    tags.setdefault(name, {})[stream] = UNCONFIRMED
    reply = Reply()

    def confirmed(given_epoch: int, given_n: int) -> None:
        at = min((epoch, n), (given_epoch, given_n))
        tagged = tags.get(name, {})
        if at[0]:
            tagged[stream] = at
        else:
            tagged.pop(stream, None)
        if not tagged:
            tags.pop(name, None)
        reply.complete(OK)

    asking, is_wanted = core.cluster.asking, lambda: not session.is_closing
    if is_kept_to:
        asking.await_epoch(topic, epoch, confirmed, is_wanted)
    else:
        asking.position(topic, stream, confirmed, is_wanted)
    return reply


def _elsewhere(words: Sequence[bytes]) -> list[bytes] | str | None:
    if not words:
        return None
    if words[0].upper() != b"ELSEWHERE":
        return _USAGE
    return list(words[1:])


def _subscribe_to_rest(
    core: HubCore, session: Session, name: bytes, elsewhere: list[bytes] | None
) -> bytes | str | Reply:
    """Subscribe once the streams stand here that the client does not get elsewhere."""
    cluster = core.cluster

    def proceed() -> bytes:
        topic = core.index.topics.get(name)
        absent = elsewhere
        if topic is not None and absent is None:
            absent = cluster.listening.not_own(topic)
            if absent is None:
                return core.refuse(_not_home(cluster.router.version))
        if topic is not None:
            cluster.listening.leave_out(session, topic, absent or [])
        problem = subscribe(core, session, Kind.OWN, [name])
        if session.redirected is not None:
            cluster.redirects.subscribed(session, [name])
        return b"" if problem is None else core.refuse(problem)

    def left_out(topic: Topic) -> list[bytes] | None:
        return elsewhere if elsewhere is not None else cluster.listening.not_own(topic)

    return cluster.listening.when_ready(session, Kind.OWN, [name], proceed, left_out)


def _not_home(version: int | None) -> str:
    return f"NOTHOME this hub is not a home of the topic under plan {version}: use a home, or try again"
