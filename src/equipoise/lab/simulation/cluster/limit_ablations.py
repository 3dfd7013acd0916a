"""Safeguards of rate limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.hub.cluster.client_admission import ClientAdmission
from equipoise.hub.cluster.client_queue import PendingPublish
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.lane_returns import LaneReturns
from equipoise.hub.cluster.limited_clients import LimitedClients
from equipoise.hub.cluster.seats import Seats
from equipoise.hub.cluster.share_keeper import ShareKeeper
from equipoise.hub.cluster.streams import PublishRoute, Stream
from equipoise.hub.cluster.topic_limit import TopicLimit
from equipoise.hub.cluster.topic_tokens import TopicTokens
from equipoise.hub.data.topic import Topic
from equipoise.hub.logs.limited_adds import LimitedAdds
from equipoise.hub.membership.membership import Membership
from equipoise.hub.membership.spec_sync import SpecSync
from equipoise.lab.simulation.ablation import Ablation, replaced, replacing
from equipoise.lab.simulation.checkers import (
    envelope,
    fair_turns,
    full_use,
    held_up,
    order,
    progress,
    seat_balance,
)
from equipoise.limits import Bucket, TokenReserve, TurnRing, nanoseconds
from equipoise.model import Plan
from equipoise.stream.submission import Submission

__all__ = ["LIMIT_ABLATIONS"]


_report = Seats._report


def _once(
    seats: Seats, topic: bytes, client: bytes, *, is_seated: bool = False, is_gone: bool = False
) -> None:
    if not is_seated:
        _report(seats, topic, client, is_gone=is_gone)


def _open_full(keeper: ShareKeeper, topic: Topic, limit: TopicLimit, hub: str) -> None:
    limit.give_up()
    limit.is_fresh = False
    limit.wanted = keeper._wanted(topic, limit)
    limit.resize(limit.wanted)
    limit.bucket.fill(limit.wanted.depth)


def _gain_full_depth(bucket: Bucket, rate: int, depth: int, now: int) -> None:
    level = bucket.level(now)
    bucket._level = min(level + max(0, depth - bucket.depth), depth)
    bucket.rate, bucket.depth = rate, depth


def _keep_depth(bucket: Bucket, rate: int, depth: int, now: int) -> None:
    _RESIZE(bucket, rate, max(depth, bucket.depth) if depth else 0, now)


def _go_past_the_gate(ingress: Ingress, topic: Topic, item: Submission) -> bool:
    limit = topic.limit
    if not item.path or topic.stream is not None:
        return _SUBMIT(ingress, topic, item)
    topic.limit = None
    try:
        return _SUBMIT(ingress, topic, item)
    finally:
        topic.limit = limit


def _send_all_ahead(
    admission: ClientAdmission, topic: Topic, limit: TopicLimit, count: int, *, is_claim: bool = False
) -> bool:
    is_home = admission._cluster.ways.stream_now(topic).is_home
    return _PASSES(admission, topic, limit, count, is_claim=is_claim) if is_home else True


def _by_the_wall(tokens: TopicTokens) -> int:
    return nanoseconds(tokens._core.shell.wall_time())


async def _never(membership: Membership, plan: Plan, seen: object) -> bool:
    return False


@contextmanager
def _serve_before_specs() -> Iterator[None]:
    async def reach(sync: SpecSync, version: int) -> None:
        """Serve clients without having read the topic specs."""

    async def follow(sync: SpecSync) -> None:
        await asyncio.sleep(0.5)
        await _FOLLOW(sync)

    with replaced(SpecSync, "reach", reach), replaced(SpecSync, "follow", follow):
        yield


def _for_the_latest(clients: LimitedClients, trunk: Topic, one: PendingPublish) -> bool:
    """A waiting message counts against the connection that published last."""
    own, one.session = one.session, trunk.publisher or 0
    try:
        return _SEND(clients, trunk, one)
    finally:
        one.session = own


def _recall_only(returns: LaneReturns, trunk: Stream, way: PublishRoute, topic: Topic | None) -> None:
    """Queued messages still go to the old stream while older messages return from it."""
    if topic is not None and topic.limit is not None and topic.stream is not None and way.now != way.target:
        way.is_recalled = way.is_recalled or returns._ask(topic.key, (), topic.stream.admission)


def _stay_first(ring: TurnRing[object]) -> None:
    """A client that has a turn keeps all later turns."""


_SUBMIT, _FOLLOW, _PASSES = Ingress.submit, SpecSync.follow, ClientAdmission.passes
_SEND, _RESIZE = LimitedClients._send, Bucket.resize

LIMIT_ABLATIONS = (
    Ablation(
        "take-before-give",
        "A share grows only after every hub has shrunk its own share.",
        envelope.NAME,
        "limits-shares",
        replacing(ShareKeeper, "_may_grow", lambda keeper, topic: True),
        seed=21,
    ),
    Ablation(
        "empty-depth",
        "The added capacity of a grown share starts without tokens.",
        envelope.NAME,
        "limits-shares",
        replacing(Bucket, "resize", _gain_full_depth),
        seed=30,
    ),
    Ablation(
        "depth-cut",
        "A share that shrinks discards the tokens above its smaller capacity.",
        envelope.NAME,
        "limits-bursts",
        replacing(Bucket, "resize", _keep_depth),
        seed=10,
    ),
    Ablation(
        "level",
        "The level of a bucket moves with its topic.",
        envelope.NAME,
        "limits-moves",
        replacing(ShareKeeper, "opened", _open_full),
    ),
    Ablation(
        "limits-lease",
        "A hub numbers rate-limited topics only under its lease.",
        envelope.NAME,
        "limits-zombie",
        replacing(TopicTokens, "holds_lease", lambda tokens, now: True),
        seed=17,
    ),
    Ablation(
        "kept-buckets",
        "A hub keeps a topic until its bucket is full.",
        envelope.NAME,
        "limits-idle",
        replacing(TopicLimit, "is_engaged", property(lambda limit: False)),
        seed=5,
    ),
    Ablation(
        "monotonic-clock",
        "Buckets refill by a monotonic clock.",
        envelope.NAME,
        "limits-clocks",
        replacing(TopicTokens, "now", _by_the_wall),
        seed=3,
    ),
    Ablation(
        "specs-first",
        "A hub serves clients after it has read the topic specs.",
        envelope.NAME,
        "limits-crashes",
        _serve_before_specs,
    ),
    Ablation(
        "able-hubs",
        "A hub amends a plan that gives rate-limited topics to a hub without rate limits, then applies it.",
        envelope.NAME,
        "limits-old-hub",
        replacing(Membership, "_amends", _never),
    ),
    Ablation(
        "one-gate",
        "Messages that other hubs forward also need tokens.",
        envelope.NAME,
        "limits-moves",
        replacing(Ingress, "submit", _go_past_the_gate),
    ),
    Ablation(
        "limited-adds",
        "An XADD to a rate-limited topic needs a token.",
        envelope.NAME,
        "limits-adds",
        replacing(LimitedAdds, "charge", lambda adds, name: None),
    ),
    Ablation(
        "turns",
        "Connections take turns, one message each.",
        fair_turns.NAME,
        "limits-fair",
        replacing(TurnRing, "turn_over", _stay_first),
    ),
    Ablation(
        "newcomers",
        "A publisher that returns precedes publishers that have had a turn since its own last turn.",
        progress.NAME,
        "limits-bursts",
        replacing(TurnRing, "_later", lambda ring, party: []),
        seed=15,
    ),
    Ablation(
        "kept-token",
        "A hub reserves a token for a publisher that it rejected.",
        progress.NAME,
        "limits-lockstep",
        replacing(TokenReserve, "keep", lambda *words: None),
    ),
    Ablation(
        "seat-order",
        "Messages that wait for tokens count against the connection they arrived on.",
        order.NAME,
        "limits-seats-resets",
        replacing(LimitedClients, "_send", _for_the_latest),
        seed=138,
    ),
    Ablation(
        "seat-moves",
        "Hubs redirect publishers away from an overloaded seat.",
        seat_balance.NAME,
        "limits-seats-balance",
        replacing(Seats, "_settle", lambda seats, topic: None),
    ),
    Ablation(
        "seats-again",
        "A hub reports its publishers again while they publish, and when the trunk has a new home.",
        seat_balance.NAME,
        "limits-seats-balance",
        replacing(Seats, "_report", _once),
        seed=2,
    ),
    Ablation(
        "deferred-replies",
        "Replies to a waiting topic do not delay replies to other topics.",
        held_up.NAME,
        "limits-beside",
        replacing(LimitedClients, "_defer", lambda clients, topic, limit, one: one.reply),
        seed=1,
    ),
    Ablation(
        "relay-window",
        "A hub sends the home no more messages ahead than the rate envelope admits.",
        fair_turns.NAME,
        "limits-fair",
        replacing(ClientAdmission, "passes", _send_all_ahead),
    ),
    Ablation(
        "recall",
        "Messages that wait for tokens in an abandoned stream return to the sender, which sends them "
        "to the next stream.",
        full_use.NAME,
        "limits-used",
        replacing(LaneReturns, "recall", lambda returns, trunk, way, topic: None),
    ),
    Ablation(
        "remainders",
        "The trunk takes over the tokens that a lane has left when it ends.",
        full_use.NAME,
        "limits-used",
        replacing(ShareKeeper, "receive_remainder", lambda shares, limit, hub, version, level: None),
        seed=470,
    ),
    Ablation(
        "recall-order",
        "Messages queued for an abandoned stream follow those that return from it.",
        order.NAME,
        "limits-used",
        replacing(LaneReturns, "recall", _recall_only),
        seed=15,
    ),
)
