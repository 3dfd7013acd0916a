"""Subscribe and unsubscribe, for all kinds (`kinds.py`) alike; apply a change of access rules to subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.denials import denial
from equipoise.hub.access.quotas import Resource, owner_of
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.patterns import Pattern
from equipoise.hub.data.topics import Topic
from equipoise.model import Glob
from equipoise.resp.replies import bulk, integer, null, push

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.session_host import SessionHost

NO_GLOBS: Mapping[bytes, Glob] = MappingProxyType({})


def subscribe(
    core: SessionHost,
    session: Session,
    kind: Kind,
    names: list[bytes],
    globs: Mapping[bytes, Glob] = NO_GLOBS,
) -> str | None:
    """Subscribe to each name in turn and push an answer for each; an error text for the first that may not be.

    As in Redis, permissions are judged for all names before any is subscribed to. `globs` has the patterns compiled.
    """
    problem = objection(core, session, kind, names)
    if problem is not None:
        return problem
    for name in names:
        target = _attach(core, session, kind, name, globs.get(name))
        if isinstance(target, str):
            return target
        facts = [bulk(kind.subscribed), bulk(name), integer(session.subscription_count(kind.counted_with))]
        if kind is Kind.POSITIONED_NAME and isinstance(target, Topic):
            facts += [integer(target.epoch), integer(target.n)]
        elif kind is Kind.OWN and isinstance(target, Topic):
            facts += _own_stream(core, session, target)
        session.push(push(facts, session.proto))
        if kind.is_by_name and isinstance(target, Topic):
            core.cluster.listening.greet(session, target, kind)
    return None


def unsubscribe(core: SessionHost, session: Session, kind: Kind, names: list[bytes]) -> None:
    """End the named subscriptions, or all of the kind; one push for each, or one with null if there is none."""
    names = names or list((session.subscriptions or {}).get(kind, {}))
    for name in names:
        _detach(core, session, kind, name)
        _push_unsubscribed(session, kind, bulk(name))
    if not names:
        _push_unsubscribed(session, kind, null(session.proto))
    _forget_if_empty(session)


def forget_session(core: SessionHost, session: Session) -> None:
    """The session ends: leave every topic and pattern without a word."""
    for kind, held in (session.subscriptions or {}).items():
        for name in list(held):
            _detach(core, session, kind, name)
    session.subscriptions = None


def renew_forms(core: SessionHost, session: Session) -> None:
    """The session's protocol changed: its topics have to encode for it anew."""
    for held in (session.subscriptions or {}).values():
        for target in held.values():
            if isinstance(target, Topic):
                target.renew()
            else:
                core.index.note_change(target.glob)


def judge_again(core: SessionHost, session: Session) -> int:
    """Take away the subscriptions that the session's user may no longer have; how many those were.

    The client is told with the same push that answers an unsubscription. What waits for it in its backlog is
    dropped; bytes that its transport has taken cannot be called back.
    """
    revoked = 0
    for kind, held in list((session.subscriptions or {}).items()):
        for name, target in list(held.items()):
            if _may_subscribe(session, kind, name):
                if isinstance(target, Pattern):
                    # It still stands, but may reach fewer topics than before.
                    core.index.note_change(target.glob)
                continue
            _detach(core, session, kind, name)
            _push_unsubscribed(session, kind, bulk(name))
            revoked += 1
    core.backlogs.revoke(session, lambda topic: session.may(Action.SUBSCRIBE, topic.name))
    _forget_if_empty(session)
    session.flush()
    return revoked


def compile_pattern(core: SessionHost, pattern: bytes) -> Glob | str:
    """A client's pattern, if it is within the limits: compiling and matching take time."""
    limits = core.limits
    if len(pattern) > limits.pattern_bytes_max:
        return f"ERR pattern longer than {limits.pattern_bytes_max} bytes (pattern_bytes_max)"
    known = core.index.patterns.get(pattern)
    glob = known.glob if known is not None else Glob(pattern)
    if glob.wildcards > limits.pattern_wildcards_max:
        return f"ERR pattern with more than {limits.pattern_wildcards_max} wildcards (pattern_wildcards_max)"
    return glob


def objection(core: SessionHost, session: Session, kind: Kind, names: list[bytes]) -> str | None:
    """Why the session may not subscribe to all of these."""
    limits = core.limits
    subscriptions = session.subscriptions or {}
    held = sum(map(len, subscriptions.values()))
    new = len(set(names).difference(subscriptions.get(kind, ())))
    if held + new > limits.subscriptions_max:
        return f"ERR more than {limits.subscriptions_max} subscriptions on one connection (subscriptions_max)"
    if kind.is_pattern:
        held = sum(len(targets) for other, targets in subscriptions.items() if other.is_pattern)
        if held + new > limits.patterns_max:
            return f"ERR more than {limits.patterns_max} patterns on one connection (patterns_max)"
    problem = _over_quota(core, session, kind, names, new)
    if problem is not None:
        return problem
    for name in names:
        # Longer ones do not exist and cannot be made; matching them with grants would take long.
        is_possible = kind.is_pattern or len(name) <= limits.topic_bytes_max
        if is_possible and not _may_subscribe(session, kind, name):
            return denial(session, Action.SUBSCRIBE, name)
    return None


def _over_quota(core: SessionHost, session: Session, kind: Kind, names: list[bytes], new: int) -> str | None:
    """Why the hub, or the session's user, has no room for so many new subscriptions."""
    owner = owner_of(session.user)
    problem = core.quotas.objection(Resource.SUBSCRIPTIONS, owner, new)
    if problem is None and kind.is_pattern:
        fresh = sum(core.index.patterns.get(name) is None for name in set(names))
        problem = core.quotas.objection(Resource.PATTERNS, owner, fresh) if fresh else None
    return problem


def _may_subscribe(session: Session, kind: Kind, name: bytes) -> bool:
    if not kind.is_pattern:
        return session.may(Action.SUBSCRIBE, name)
    return session.is_unrestricted or (
        session.user is not None and session.user.may_pattern(Action.SUBSCRIBE, name)
    )


def _attach(
    core: SessionHost, session: Session, kind: Kind, name: bytes, glob: Glob | None
) -> Topic | Pattern | str:
    if session.subscriptions is None:
        session.subscriptions = {}
    held = session.subscriptions.setdefault(kind, {})
    known = held.get(name)
    if known is not None:
        return known
    target: Topic | Pattern
    if glob is not None:
        target = core.index.add_pattern_member(glob, session, kind)
    else:
        topic = core.index.find(name, is_shard=kind.is_shard) or core.new_topic(
            session, name, is_shard=kind.is_shard
        )
        if isinstance(topic, str):
            _forget_if_empty(session)
            return topic
        core.metering.subscribed(topic)
        core.index.add_member(topic, session, kind)
        target = topic
    held[name] = target
    core.quotas.take(Resource.SUBSCRIPTIONS, owner_of(session.user))
    _share_audiences(session)
    return target


def _share_audiences(session: Session) -> None:
    """A second subscription: the topic of the first is no longer all that the session hears."""
    held = session.subscriptions or {}
    if sum(map(len, held.values())) == 2:
        for targets in held.values():
            for target in targets.values():
                if isinstance(target, Topic):
                    target.renew()


def _detach(core: SessionHost, session: Session, kind: Kind, name: bytes) -> None:
    target = (session.subscriptions or {}).get(kind, {}).pop(name, None)
    if target is None:
        return
    core.quotas.give_back(Resource.SUBSCRIPTIONS, owner_of(session.user))
    if isinstance(target, Pattern):
        core.index.remove_pattern_member(target, session, kind)
    else:
        core.metering.subscribed(target)
        core.index.remove_member(target, session, kind)


def _own_stream(core: SessionHost, session: Session, topic: Topic) -> list[bytes]:
    """The stream of the topic that this hub numbers, how far it is, and the streams that the session does not get."""
    listening = core.cluster.listening
    streams = listening.own(topic)
    left_out = map(bulk, listening.left_out(session, topic))
    if not streams:
        return [null(3), integer(0), integer(0), *left_out]
    return [bulk(streams[0].lane), integer(streams[0].epoch), integer(streams[0].n), *left_out]


def _push_unsubscribed(session: Session, kind: Kind, name: bytes) -> None:
    count = integer(session.subscription_count(kind.counted_with))
    session.push(push((bulk(kind.unsubscribed), name, count), session.proto))


def _forget_if_empty(session: Session) -> None:
    """A session without subscriptions goes back to the fast way of publishing."""
    if session.subscriptions is not None and not any(session.subscriptions.values()):
        session.subscriptions = None
