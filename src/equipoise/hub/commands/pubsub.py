"""SUBSCRIBE and its kin, PUBLISH, SPUBLISH, PUBSUB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.content.parsing import FilterRequest
from equipoise.hub.access.denials import denial, too_long
from equipoise.hub.commands.connection import NEEDS_RESP3
from equipoise.hub.commands.spec import Handler
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.publish import publish_run
from equipoise.hub.data.region_counts import PATTERN, SHARD, TOPIC
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import (
    NOTHING_COMPILED,
    Compiled,
    compile_filter_or_pattern,
    compile_pattern,
    objection,
    subscribe,
    unsubscribe,
)
from equipoise.hub.data.turns import by_turns
from equipoise.resp.replies import array, bulk, integer
from equipoise.resp.requests import text_of

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic
    from equipoise.model import Glob

# Topics checked in one step of a listing: a millisecond for a user with many grants.
LISTED_AT_ONCE = 64


def subscriber(kind: Kind) -> Handler:
    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
        if kind.is_positioned and session.proto != 3:
            return NEEDS_RESP3
        names = command[1:]
        if not core.cluster.is_alone and not kind.is_shard:
            return _subscribe_everywhere(core, session, kind, names)
        if kind.is_pattern:
            return _compiled(
                core, session, kind, names, lambda found: subscribe(core, session, kind, names, found) or b""
            )
        return subscribe(core, session, kind, names) or b""

    return run


def _subscribe_everywhere(
    core: HubCore, session: Session, kind: Kind, names: list[bytes]
) -> bytes | str | Reply:
    """Subscribe once the other hubs involved send this hub the messages that match the subscription."""
    if kind.is_pattern:
        return _compiled(
            core, session, kind, names, partial(_subscribe_when_ready, core, session, kind, names)
        )
    return _subscribe_when_ready(core, session, kind, names, NOTHING_COMPILED)


def _subscribe_when_ready(
    core: HubCore, session: Session, kind: Kind, names: list[bytes], compiled: Compiled
) -> bytes | str | Reply:
    problem = objection(core, session, kind, names, compiled)
    if problem is not None:
        return problem
    filtered = [found for found in compiled.values() if isinstance(found, FilterRequest)]
    others = [name for name in names if not isinstance(compiled.get(name), FilterRequest)]

    def proceed() -> bytes:
        problem = subscribe(core, session, kind, names, compiled)
        if session.redirected is not None and kind is Kind.POSITIONED_NAME:
            core.cluster.redirects.subscribed(session, names)
        if kind.is_pattern:
            core.cluster.subscriptions.keep_streams_of(others)
        return b"" if problem is None else core.refuse(problem)

    return core.cluster.subscriptions.when_ready(session, kind, others, proceed, filtered=filtered)


def _compiled(
    core: HubCore,
    session: Session,
    kind: Kind,
    names: list[bytes],
    proceed: Callable[[Compiled], bytes | str | Reply],
) -> bytes | Reply:
    """Compile patterns and filters in turns, because a thousand long ones take long, then `proceed` with them."""
    compiled: dict[bytes, Glob | FilterRequest] = {}
    problem: str | None = None

    def steps() -> Iterator[None]:
        nonlocal problem
        for name in names:
            found = _compile(core, kind, name)
            if isinstance(found, str):
                problem = found
                return
            compiled[name] = found
            yield

    def reply() -> bytes | Reply:
        outcome = problem or proceed(compiled)
        return core.refuse(outcome) if isinstance(outcome, str) else outcome

    if len(names) > 1:
        return by_turns(core, session, steps(), reply)
    for _ in steps():
        pass
    return reply()


def _compile(core: HubCore, kind: Kind, name: bytes) -> Glob | FilterRequest | str:
    """Only PSUBSCRIBE accepts filters: smart clients use EQ.FSUBSCRIBE."""
    return compile_filter_or_pattern(core, name) if kind is Kind.PATTERN else compile_pattern(core, name)


def unsubscriber(kind: Kind) -> Handler:
    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
        if kind.is_positioned and session.proto != 3:
            return NEEDS_RESP3
        unsubscribe(core, session, kind, command[1:])
        return b""

    return run


def publish(core: HubCore, session: Session, command: list[bytes]) -> bytes | Reply:
    if session.subscriptions is not None:
        # The client may receive its own message: write the gathered replies before it.
        session.flush()
    return publish_run(core, session, command[1], command[2:])


def spublish(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    name = command[1]
    if len(name) > core.limits.topic_bytes_max:
        return too_long(core)
    if not session.may(Action.PUBLISH, name):
        return denial(session, Action.PUBLISH, name)
    topic = core.index.find(name, is_shard=True)
    if topic is None:
        return integer(0)
    session.flush()
    return integer(core.publish(topic, (command[2],)))


def channels(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    return _channels(core, TOPIC, core.index.topics, session, command)


def shardchannels(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    return _channels(core, SHARD, core.index.shards, session, command)


def numsub(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return _numsub(core, TOPIC, session, command)


def shardnumsub(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return _numsub(core, SHARD, session, command)


def numpat(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    own = core.index.patterns
    elsewhere = sum(own.get(name) is None for name in core.index.counts.names(PATTERN))
    return integer(len(own) + elsewhere + core.filtering.filters)


def _channels(
    core: HubCore, kind: bytes, topics: dict[bytes, Topic], session: Session, command: list[bytes]
) -> bytes | str | Reply:
    """List topics with subscribers, here or at another hub, that the client has a permission for."""
    if len(command) > 3:
        word = text_of(command[1])
        return f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."
    glob = compile_pattern(core, command[2] if len(command) == 3 else b"*")
    if isinstance(glob, str):
        return glob
    listed: list[bytes] = []
    is_empty_listed = len(command) == 2

    def steps() -> Iterator[None]:
        elsewhere = dict.fromkeys(core.index.counts.names(kind))
        for i, name in enumerate(dict.fromkeys(topics) | elsewhere):
            # Check again: subscribers may have left since the listing began.
            topic = topics.get(name)
            is_heard = name in elsewhere or (topic is not None and topic.has_subscribers)
            is_matched = glob.matches(name) or (is_empty_listed and not name)
            if is_heard and is_matched and is_visible(session, name):
                listed.append(bulk(name))
            if not i % LISTED_AT_ONCE:
                yield

    return by_turns(core, session, steps(), lambda: array(listed))


def _numsub(core: HubCore, kind: bytes, session: Session, command: list[bytes]) -> bytes:
    """Count subscribers by name at all hubs, and subscribers by filter at this hub."""
    index = core.index
    parts: list[bytes] = []
    for name in command[2:]:
        count = 0
        if is_visible(session, name):
            count = index.own_count((kind, name)) + index.counts.of(kind, name)
            topic = index.topics.get(name) if kind == TOPIC else None
            count += 0 if topic is None or topic.content is None else topic.content.subscriptions
        parts += (bulk(name), integer(count))
    return array(parts)


def is_visible(session: Session, name: bytes) -> bool:
    return session.may(Action.SUBSCRIBE, name) or session.may(Action.PUBLISH, name)
