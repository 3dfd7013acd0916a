"""SUBSCRIBE and its kin, PUBLISH, SPUBLISH, PUBSUB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.commands.spec import Handler, text_of
from equipoise.hub.denial import denial
from equipoise.hub.kinds import Kind
from equipoise.hub.subscribing import subscribe, unsubscribe
from equipoise.model import Glob
from equipoise.resp.replies import array, bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.session import Session
    from equipoise.hub.topics import Topic

_NEEDS_RESP3 = "ERR EQ commands need RESP3: send HELLO 3 first"


def subscriber(kind: Kind) -> Handler:
    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
        if kind.is_positioned and session.proto != 3:
            return _NEEDS_RESP3
        return subscribe(core, session, kind, command[1:]) or b""

    return run


def unsubscriber(kind: Kind) -> Handler:
    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
        if kind.is_positioned and session.proto != 3:
            return _NEEDS_RESP3
        unsubscribe(core, session, kind, command[1:])
        return b""

    return run


def publish(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    topic = core.topic_to_publish(session, command[1])
    if isinstance(topic, str):
        return topic
    if session.subscriptions is not None:
        # The client may be its own audience: what it was answered before comes first.
        session.flush()
    return integer(core.publish(topic, (command[2],)))


def spublish(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    name = command[1]
    if not session.may(Action.PUBLISH, name):
        return denial(session, Action.PUBLISH, name)
    topic = core.index.find(name, is_shard=True)
    if topic is None:
        return integer(0)
    session.flush()
    return integer(core.publish(topic, (command[2],)))


def channels(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    return _channels(core.index.topics, session, command)


def shardchannels(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    return _channels(core.index.shards, session, command)


def numsub(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return _numsub(core.index.topics, session, command)


def shardnumsub(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return _numsub(core.index.shards, session, command)


def numpat(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return integer(len(core.index.patterns))


def _channels(topics: dict[bytes, Topic], session: Session, command: list[bytes]) -> bytes | str:
    """Topics with subscribers. A listing shows nobody what it may not use."""
    if len(command) > 3:
        word = text_of(command[1])
        return f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."
    glob = Glob(command[2]) if len(command) == 3 else None
    return array(
        bulk(name)
        for name, topic in topics.items()
        if topic.members
        and (glob is None or glob.matches(name))
        and (glob is not None or not name.startswith(b"$"))
        and is_visible(session, name)
    )


def _numsub(topics: dict[bytes, Topic], session: Session, command: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for name in command[2:]:
        topic = topics.get(name)
        count = len(topic.members) if topic is not None and is_visible(session, name) else 0
        parts += (bulk(name), integer(count))
    return array(parts)


def is_visible(session: Session, name: bytes) -> bool:
    return session.may(Action.SUBSCRIBE, name) or session.may(Action.PUBLISH, name)
