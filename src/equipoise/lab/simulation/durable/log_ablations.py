"""Safeguards of hubs that own logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from equipoise.client.routing.channel import TopicChannel
from equipoise.errors import LedgerError
from equipoise.hub.cluster.lease import Lease
from equipoise.hub.cluster.log_calls import LogCalls
from equipoise.hub.data.topic import Topic
from equipoise.hub.logs.durable_topic import DurableTopic
from equipoise.hub.logs.durable_topics import DurableTopics
from equipoise.hub.logs.live_log import LiveLog
from equipoise.hub.membership import topic_giving
from equipoise.hub.membership.membership import Membership
from equipoise.hub.membership.topic_giving import TopicGiving
from equipoise.hub.shell.log_claims import LogClaims, Taking
from equipoise.hub.shell.log_opener import FoundLog, LogOpener
from equipoise.lab.simulation.ablation import Ablation, replaced, replacing
from equipoise.lab.simulation.checkers import kept, log_views, once
from equipoise.ledger.log import OpenLedger
from equipoise.ledger_client.ledger_relocation import LedgerRelocation
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.log.records import LogSnapshot
from equipoise.log.sequences import ProducerSequences
from equipoise.log.topic_log import TopicLog
from equipoise.model import Plan
from equipoise.store.records.hubs import HubSeen
from equipoise.store.records.topic_logs import LogLedger, StoredLog

__all__ = ["LOG_ABLATIONS"]


async def _claim_in_the_same_epoch(claims: LogClaims, live: LiveLog, taking: Taking) -> StoredLog:
    """Take the topic from its owner, and go on in that one's epoch."""
    while True:
        known = await claims._records.load(live.name)
        live.claimed = known.node.epoch or claims._new_epoch()
        claim = msgspec.structs.replace(
            known.node, owner=claims._hub, incarnation=claims._incarnation(), epoch=live.claimed
        )
        saved = await claims._records.save(live.name, claim, known.version)
        if saved is not None:
            return saved


async def _look_only(ledgers: BookieLedgers, ledger: int) -> int:
    """The last entry that a bookie has, while the writer goes on."""
    last = 0
    while True:
        try:
            await ledgers.read(ledger, last + 1, last + 1)
        except LedgerError:
            return last
        last += 1


def _seal_at_once(live: LiveLog, sealed: Callable[[OpenLedger | None], None]) -> None:
    """Give the log away with appends in flight, and answer their clients as if they were committed."""
    ledger, held = live._ledger, list(live._held)
    live._held.clear()
    live.close()
    for _, tell in held:
        tell(True)
    sealed(ledger)


@contextmanager
def _without_fence_and_lease() -> Iterator[None]:
    with replaced(BookieLedgers, "recover", _look_only), _without_lease():
        yield


@contextmanager
def _without_lease() -> Iterator[None]:
    with (
        replaced(Lease, "is_valid", lambda lease, now: True),
        replaced(Lease, "is_sole", lambda lease, now: True),
    ):
        yield


@contextmanager
def _telling_early() -> Iterator[None]:
    """Give subscribers what is published before it is committed."""
    add = DurableTopic._add

    def add_and_tell(channel: DurableTopic, log: TopicLog, payloads: Sequence[bytes]) -> None:
        if channel._topic.is_home:
            channel._core.publish(channel._topic, payloads)
        add(channel, log, payloads)

    with (
        replaced(DurableTopic, "_add", add_and_tell),
        replaced(DurableTopic, "align", lambda *_: None),
        replaced(DurableTopics, "committed", lambda *_: None),
    ):
        yield


@contextmanager
def _overtaking() -> Iterator[None]:
    """Send every command by itself, without waiting for the answer to the one before."""
    drain = LogCalls._drain

    def drain_each(calls: LogCalls, key: bytes) -> None:
        if (queue := calls._queues.get(key)) is not None:
            queue.calls.reverse()
        drain(calls, key)

    with replaced(LogCalls, "_drain", drain_each):
        yield


@contextmanager
def _forgetting_ledgers() -> Iterator[None]:
    """Delete every ledger before the present one, trimmed or not."""
    begin = LogOpener._begin

    async def begin_alone(
        opener: LogOpener,
        topic: bytes,
        stored: StoredLog,
        closed: Sequence[LogLedger],
        snapshot: LogSnapshot,
        spare: OpenLedger | None = None,
    ) -> OpenLedger:
        emptied = [msgspec.structs.replace(part, last_ms=0, last_seq=0) for part in closed]
        return await begin(opener, topic, stored, emptied, snapshot, spare)

    with replaced(LogOpener, "_begin", begin_alone):
        yield


@contextmanager
def _forgetting_publishers() -> Iterator[None]:
    """Go on with a log as if no publisher had numbered anything before."""
    find = LogOpener.find

    async def find_without_numbers(opener: LogOpener, live: LiveLog) -> FoundLog:
        found = await find(opener, live)
        found.log.sequences = ProducerSequences()
        return found

    with replaced(LogOpener, "find", find_without_numbers):
        yield


async def _give_nothing(giving: TopicGiving, topics: list[bytes]) -> int:
    return 0


async def _always(giving: TopicGiving, topic: bytes) -> bool:
    return True


async def _never(membership: Membership, plan: Plan, seen: Mapping[str, HubSeen]) -> bool:
    return False


LOG_ABLATIONS = (
    Ablation(
        "log-claim",
        "No hub claims a topic from a live owner, and each claim has its own epoch.",
        log_views.ONE_EPOCH,
        "durable-moves",
        replacing(LogClaims, "claim", _claim_in_the_same_epoch),
    ),
    Ablation(
        "log-fencing",
        "The next owner fences the last ledger, which keeps all acknowledged entries even without a lease.",
        kept.NAME,
        "durable-cut-off",
        _without_fence_and_lease,
    ),
    Ablation(
        "log-lease",
        "A hub with an expired lease answers no command on a log, including reads.",
        log_views.PREFIXES,
        "durable-cut-off",
        _without_lease,
        seed=11,
    ),
    Ablation(
        "log-sole",
        "A hub that holds its lease without the store asks the bookies whether another hub has "
        "continued the log.",
        log_views.PREFIXES,
        "durable-cut-off",
        replacing(Lease, "is_sole", Lease.is_valid),
        seed=102,
    ),
    Ablation(
        "log-seal",
        "A hub hands over a log after all appended entries are committed.",
        kept.NAME,
        "durable-moves",
        replacing(LiveLog, "seal", _seal_at_once),
        seed=3,
    ),
    Ablation(
        "log-channel",
        "Subscribers to a durable topic receive committed entries only.",
        log_views.PREFIXES,
        "durable-topics",
        _telling_early,
    ),
    Ablation(
        "log-fill",
        "A hub that misses messages of a durable topic requests them from the owner of the log.",
        log_views.PREFIXES,
        "durable-topics",
        replacing(Topic, "has_followers", property(lambda topic: False)),
        seed=5,
    ),
    Ablation(
        "log-resume",
        "A smart subscriber that returns to a durable topic resumes after its last message.",
        log_views.PREFIXES,
        "durable-topics",
        replacing(TopicChannel, "resume_at", None),
        seed=8,
    ),
    Ablation(
        "log-numbers",
        "A log keeps the last sequence number of each publisher, also at its next owner: a resent "
        "message is added once.",
        once.NAME,
        "durable-once",
        _forgetting_publishers,
    ),
    Ablation(
        "log-repeats",
        "A batch that a publisher resends is added once.",
        once.NAME,
        "durable-once",
        replacing(ProducerSequences, "known", lambda sequences, producer, run, n, count=1: (False, None)),
        seed=1,
    ),
    Ablation(
        "log-giving",
        "Without a leading controller, a hub above the mean hands over logs.",
        kept.NAME,
        "durable-unled",
        replacing(TopicGiving, "give", _give_nothing),
    ),
    Ablation(
        "log-mean",
        "A hub hands over logs only down to the mean, so the placement converges.",
        kept.NAME,
        "durable-unled",
        replacing(topic_giving, "topics_over_mean", lambda own, loads, topics: (1, 1.0)),
    ),
    Ablation(
        "log-room",
        "A log whose home is dead goes to a hub with capacity.",
        kept.NAME,
        "durable-unled",
        replacing(TopicGiving, "may_open", _always),
    ),
    Ablation(
        "log-hubs",
        "A hub amends a plan that gives durable topics to a hub without logs, then applies it.",
        kept.NAME,
        "durable-old-hub",
        replacing(Membership, "_amends", _never),
        seed=30,
    ),
    Ablation(
        "log-sites",
        "Old ledgers follow a log to the site of its owner and survive the loss of the former site.",
        kept.NAME,
        "durable-sites",
        replacing(LedgerRelocation, "add", lambda relocation, ledgers, is_wanted: None),
    ),
    Ablation(
        "log-ledgers",
        "A ledger is deleted once all of its entries are trimmed, and not before.",
        kept.NAME,
        "durable-trim",
        _forgetting_ledgers,
        seed=1,
    ),
    Ablation(
        "log-order",
        "Commands on a log run in order of arrival.",
        kept.NAME,
        "durable-moves",
        _overtaking,
    ),
)
