"""Subscribe and unsubscribe, for all kinds (`kinds.py`); apply changed access rules to subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.content.parsing import FilterRequest
from equipoise.hub.access.denials import denial
from equipoise.hub.access.quotas import Resource, owner_of
from equipoise.hub.content.filtering import FILTER_WORD, read_request
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS, HeldSubscriptions
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.patterns import Pattern
from equipoise.hub.data.topics import Topic
from equipoise.model import Glob
from equipoise.resp.replies import bulk, integer, null, push

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.session_host import SessionHost

# Parsed patterns and filters, by their text.
Compiled = Mapping[bytes, Glob | FilterRequest]
NOTHING_COMPILED: Compiled = MappingProxyType({})


def subscribe(
    core: SessionHost,
    session: Session,
    kind: Kind,
    names: list[bytes],
    compiled: Compiled = NOTHING_COMPILED,
    since: int | None = None,
) -> str | None:
    """Subscribe to each name in turn and push a confirmation for each; return the error text of the first failure.

    As in Redis, permissions are checked for all names before the first subscription. `compiled`: the patterns and
    filters. `since`: of a durable topic, the number up to which the client has the messages; the caller sends the
    stored messages after it.
    """
    problem = objection(core, session, kind, names, compiled)
    if problem is not None:
        return problem
    for name in names:
        target = _attach(core, session, kind, name, compiled.get(name))
        if isinstance(target, str):
            return target
        facts = [bulk(kind.subscribed), bulk(name), integer(session.subscription_count(kind.counted_with))]
        topic = core.index.topics.get(target.topic) if isinstance(target, TopicFilter) else target
        if kind.is_by_name and isinstance(topic, Topic):
            if kind is Kind.OWN:
                facts += _own_stream(core, session, topic)
            else:
                facts += [integer(topic.shown_epoch), integer(topic.n if since is None else since)]
        session.push(push(facts, session.proto))
        if kind.is_by_name and isinstance(topic, Topic):
            core.cluster.subscriptions.greet(session, topic, kind)
    return None


def unsubscribe(core: SessionHost, session: Session, kind: Kind, names: list[bytes]) -> None:
    """End the named subscriptions, or all of the kind; one push for each, or one with null if there is none."""
    names = names or list((session.subscriptions or NO_SUBSCRIPTIONS).of(kind))
    for name in names:
        _detach(core, session, kind, name)
        _push_unsubscribed(session, kind, bulk(name))
    if not names:
        _push_unsubscribed(session, kind, null(session.proto))
    _forget_if_empty(session)


def forget_session(core: SessionHost, session: Session) -> None:
    """The session ends or is reset: drop all subscriptions without pushes, and all deferred replies."""
    session.forget_deferred()
    for kind, held in (session.subscriptions or NO_SUBSCRIPTIONS).items():
        for name in list(held):
            _detach(core, session, kind, name)
    session.subscriptions = None


def filters_of(session: Session) -> list[tuple[Kind, bytes]]:
    """The subscriptions by filter."""
    return [
        (kind, name)
        for kind, held in (session.subscriptions or NO_SUBSCRIPTIONS).items()
        for name, target in held.items()
        if isinstance(target, TopicFilter)
    ]


def forget_all_but(core: SessionHost, session: Session, kept: Collection[tuple[Kind, bytes]]) -> None:
    """Drop the other subscriptions of a closed connection without pushes, and all deferred replies."""
    session.forget_deferred()
    left = set(kept)
    for kind, held in (session.subscriptions or NO_SUBSCRIPTIONS).items():
        forget_some(core, session, [(kind, name) for name in held if (kind, name) not in left])


def forget_some(core: SessionHost, session: Session, some: Iterable[tuple[Kind, bytes]]) -> None:
    """Drop these subscriptions of a closed connection without pushes."""
    for kind, name in some:
        _detach(core, session, kind, name)


def renew_forms(core: SessionHost, session: Session) -> None:
    """The session's protocol version has changed: recompile the audiences of its topics."""
    for target in (session.subscriptions or NO_SUBSCRIPTIONS).targets():
        if isinstance(target, Topic):
            target.renew()
        elif isinstance(target, TopicFilter):
            target.renew(session)
        else:
            core.index.note_change(target.glob)


def reauthorize(core: SessionHost, session: Session) -> int:
    """End the subscriptions that the session's user may no longer have; return their number.

    The client receives the same push as for an unsubscription. Their messages in its backlog are dropped; bytes that
    its transport has taken cannot be recalled.
    """
    revoked = 0
    for kind, held in (session.subscriptions or NO_SUBSCRIPTIONS).items():
        for name, target in list(held.items()):
            if _may_keep(session, kind, name, target):
                if isinstance(target, Pattern):
                    # The pattern stays, but may match fewer permitted topics than before.
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


def compile_filter_or_pattern(core: SessionHost, text: bytes) -> Glob | FilterRequest | str:
    """Parse an argument of PSUBSCRIBE; return the error text if it is invalid or not permitted."""
    if text.startswith(FILTER_WORD):
        return read_request(text, core.limits.topic_bytes_max)
    return compile_pattern(core, text)


def objection(
    core: SessionHost,
    session: Session,
    kind: Kind,
    names: Sequence[bytes],
    compiled: Compiled = NOTHING_COMPILED,
) -> str | None:
    """The error text if the session may not subscribe to all of these names; else None."""
    requests = {name: found for name, found in compiled.items() if isinstance(found, FilterRequest)}
    limits = core.limits
    subscriptions = session.subscriptions or NO_SUBSCRIPTIONS
    held = len(subscriptions)
    new = held_new = len(set(names).difference(subscriptions.of(kind)))
    if held + new > limits.subscriptions_max:
        return f"ERR more than {limits.subscriptions_max} subscriptions on one connection (subscriptions_max)"
    if kind.is_pattern:
        patterns = [name for name in names if name not in requests]
        held = sum(isinstance(target, Pattern) for target in subscriptions.targets())
        new = len(set(patterns).difference(subscriptions.of(kind)))
        if held + new > limits.patterns_max:
            return f"ERR more than {limits.patterns_max} patterns on one connection (patterns_max)"
    problem = _over_quota(core, session, kind, [name for name in names if name not in requests], held_new)
    if problem is not None:
        return problem
    problem = core.filtering.objection(session, requests.values(), core.index)
    if problem is not None:
        return problem
    for name in names:
        if name in requests:
            continue
        # Topics with longer names do not exist and cannot be created; matching them with grants would take long.
        is_possible = kind.is_pattern or len(name) <= limits.topic_bytes_max
        if is_possible and not _may_subscribe(session, kind, name):
            return denial(session, Action.SUBSCRIBE, name)
    return None


def _over_quota(core: SessionHost, session: Session, kind: Kind, names: list[bytes], new: int) -> str | None:
    """The error text if `new` subscriptions exceed a quota of the hub or of the session's user; else None."""
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


def _may_keep(session: Session, kind: Kind, name: bytes, target: Topic | Pattern | TopicFilter) -> bool:
    if isinstance(target, TopicFilter):
        return session.may(Action.SUBSCRIBE, target.topic) and session.may(Action.FILTER, target.topic)
    return _may_subscribe(session, kind, name)


def _attach(
    core: SessionHost, session: Session, kind: Kind, name: bytes, compiled: Glob | FilterRequest | None
) -> Topic | Pattern | TopicFilter | str:
    if session.subscriptions is None:
        session.subscriptions = HeldSubscriptions()
    held = session.subscriptions
    known = held.get(kind, name)
    if known is not None:
        return known
    target: Topic | Pattern | TopicFilter
    if isinstance(compiled, Glob):
        target = core.index.add_pattern_member(compiled, session, kind)
    else:
        of = name if compiled is None else compiled.topic
        topic = core.index.find(of, is_shard=kind.is_shard) or core.new_topic(
            session, of, is_shard=kind.is_shard
        )
        if isinstance(topic, str):
            _forget_if_empty(session)
            return topic
        core.metering.subscribed(topic)
        if compiled is None:
            core.index.add_member(topic, session, kind)
            target = topic
        else:
            is_smart = kind is Kind.FILTERED
            found = core.filtering.attach(
                session, name, topic, compiled.filter, core.index, is_smart=is_smart
            )
            if isinstance(found, str):
                _forget_if_empty(session)
                return found
            target = found
    # Store the topic's own name object, so that the equal one of the command is freed.
    held.add(kind, target.name if isinstance(target, Topic) else name, target)
    core.quotas.take(Resource.SUBSCRIPTIONS, owner_of(session.user))
    _share_audiences(session)
    return target


def _share_audiences(session: Session) -> None:
    """On a second subscription, recompile the audiences: they are no longer exclusive (`Audience.is_exclusive`)."""
    held = session.subscriptions or NO_SUBSCRIPTIONS
    if len(held) == 2:
        for target in held.targets():
            if isinstance(target, Topic):
                target.renew()


def _detach(core: SessionHost, session: Session, kind: Kind, name: bytes) -> None:
    target = None if session.subscriptions is None else session.subscriptions.pop(kind, name)
    if target is None:
        return
    core.quotas.give_back(Resource.SUBSCRIPTIONS, owner_of(session.user))
    if isinstance(target, Pattern):
        core.index.remove_pattern_member(target, session, kind)
    elif isinstance(target, TopicFilter):
        core.metering.subscribed(core.index.topics[target.topic])
        core.filtering.detach(session, name, target, core.index, is_smart=kind is Kind.FILTERED)
    else:
        core.metering.subscribed(target)
        core.index.remove_member(target, session, kind)


def _own_stream(core: SessionHost, session: Session, topic: Topic) -> list[bytes]:
    """The topic's stream that this hub numbers, its position, and the streams that the session does not receive."""
    subscriptions = core.cluster.subscriptions
    streams = subscriptions.own(topic)
    left_out = map(bulk, subscriptions.left_out(session, topic))
    if not streams:
        return [null(3), integer(0), integer(0), *left_out]
    return [bulk(streams[0].lane), integer(streams[0].shown_epoch), integer(streams[0].n), *left_out]


def _push_unsubscribed(session: Session, kind: Kind, name: bytes) -> None:
    count = integer(session.subscription_count(kind.counted_with))
    session.push(push((bulk(kind.unsubscribed), name, count), session.proto))


def _forget_if_empty(session: Session) -> None:
    """Reset `subscriptions` to None: sessions without subscriptions publish on the fast path."""
    if not session.subscriptions:
        session.subscriptions = None
