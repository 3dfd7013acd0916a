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

# Topics of one connection with dependencies for the next message: as many as a client is expected to use.
TAGGED_MAX = 1_000
# Placeholder for the last position of a stream: later than any.
LATEST = (2**62, 2**62)
_USAGE = "ERR syntax error: EQ.OWN topic [ELSEWHERE [stream ...]]"


def own(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Subscribe to a topic without the streams that the client receives from other hubs.

    Without ELSEWHERE: to the streams that this hub numbers.
    """
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
    """Make the session's next EQ.PUBLISH to the topic follow a position of another stream, if it was assigned.

    Without a position: the last one of each of the topic's streams.
    """
    positions = _named_positions(command)
    if isinstance(positions, str):
        return positions
    topic = core.topic_to_publish(session, command[1])
    if isinstance(topic, str):
        return topic
    is_named = positions is not None
    if positions is None:
        positions = dict.fromkeys(core.cluster.position_queries.streams_of(topic), LATEST)
    left = {
        stream: at
        for stream, at in positions.items()
        if not core.cluster.named_positions.keep_to(topic, stream, at)
        or (is_named and _is_replaced(topic, stream, at))
    }
    if not left:
        return OK
    tags = session.tags = session.tags or {}
    if topic.name not in tags and len(tags) >= TAGGED_MAX:
        return f"ERR more than {TAGGED_MAX} topics with EQ.AFTER and without EQ.PUBLISH on one connection"
    # Until the positions are confirmed, EQ.PUBLISH to the topic is rejected: its dependencies are not known yet.
    tags.setdefault(topic.name, {}).update(dict.fromkeys(left, UNCONFIRMED))
    return _confirm(core, session, topic, left)


def _confirm(core: HubCore, session: Session, topic: Topic, left: dict[bytes, tuple[int, int]]) -> Reply:
    """Query the last positions of these streams: a client's position counts only as far as it is confirmed."""
    reply, tags, name = Reply(), session.tags or {}, topic.name

    def confirmed(stream: bytes, given: tuple[int, int]) -> None:
        at, tagged = min(left.pop(stream), given), tags.get(name, {})
        if at[0]:
            tagged[stream] = at
        else:
            tagged.pop(stream, None)
        if not tagged:
            tags.pop(name, None)
        if not left:
            reply.complete(OK)

    def is_wanted() -> bool:
        return not session.is_closing

    queries = core.cluster.position_queries
    for stream, at in list(left.items()):

        def answer(epoch: int, n: int, stream: bytes = stream) -> None:
            confirmed(stream, (epoch, n))

        if at is not LATEST and _is_replaced(topic, stream, at):
            queries.await_epoch(topic, at[0], answer, is_wanted)
        else:
            queries.position(topic, stream, answer, is_wanted)
    return reply


def _named_positions(command: list[bytes]) -> dict[bytes, tuple[int, int]] | str | None:
    """The position that EQ.AFTER names; None if it means the last of each stream."""
    if len(command) == 2:
        return None
    if len(command) != 5:
        return "ERR syntax error: EQ.AFTER topic [stream epoch n]"
    epoch, n = parse_integer(command[3]), parse_integer(command[4])
    if epoch is None or n is None or min(epoch, n) < 0:
        return "ERR epoch and n are numbers"
    return {command[2]: (epoch, n)}


def _is_replaced(topic: Topic, stream: bytes, at: tuple[int, int]) -> bool:
    """Whether the position, if it was assigned, shows that another hub has opened the trunk since."""
    return stream == TRUNK and topic.is_home and at[0] > topic.epoch


def _elsewhere(words: Sequence[bytes]) -> list[bytes] | str | None:
    if not words:
        return None
    if words[0].upper() != b"ELSEWHERE":
        return _USAGE
    return list(words[1:])


def _subscribe_to_rest(
    core: HubCore, session: Session, name: bytes, elsewhere: list[bytes] | None
) -> bytes | str | Reply:
    """Subscribe once the streams that the client does not receive from other hubs are established here."""
    cluster = core.cluster

    def proceed() -> bytes:
        topic = core.index.topics.get(name)
        absent = elsewhere
        if topic is not None and absent is None:
            absent = cluster.subscriptions.not_own(topic)
            if absent is None:
                return core.refuse(_not_home(cluster.router.version))
        if topic is not None:
            cluster.subscriptions.leave_out(session, topic, absent or [])
        problem = subscribe(core, session, Kind.OWN, [name])
        if session.redirected is not None:
            cluster.redirects.subscribed(session, [name])
        return b"" if problem is None else core.refuse(problem)

    def left_out(topic: Topic) -> list[bytes] | None:
        return elsewhere if elsewhere is not None else cluster.subscriptions.not_own(topic)

    return cluster.subscriptions.when_ready(session, Kind.OWN, [name], proceed, left_out)


def _not_home(version: int | None) -> str:
    return f"NOTHOME this hub is not a home of the topic under plan {version}: use a home, or try again"
