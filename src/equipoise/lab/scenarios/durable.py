"""Worlds of bookies and logs under faults of disks, machines, links and metadata."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.lab.scenarios.scenario import NEVER, Expectation, NetworkShape, Scenario, Times
from equipoise.lab.scenarios.workload import Workload

__all__ = ["DURABLE_SCENARIOS", "LOG_SCENARIOS", "DurableScenario", "LogScenario"]

_NO_CLIENTS = Workload(clients=())
_LAN = NetworkShape(latency_s=(0.000_1, 0.003), jitter_s=(-0.002, 0.002), split=(0.0, 0.2))
_KEPT = Expectation(properties=("kept",))
_TRIMMED = Expectation(properties=("kept", "one epoch"))
_LOGS = Expectation(properties=("kept", "one epoch", "prefixes"))
_ONCE = Expectation(properties=("kept", "one epoch", "prefixes", "once"))
_SUBSCRIBERS = Expectation(properties=("kept", "one epoch", "prefixes", "marks"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableScenario(Scenario):
    """A store, bookies, and writers that append to ledgers. The seed determines the affected bookies and writers.

    Faults that destroy copies of acknowledged entries (loss, rot, lies, an emptied disk) affect one bookie, the victim:
    the guarantee holds for at most one lost copy less than the ack quorum.
    """

    workload: Workload = _NO_CLIENTS
    topology: NetworkShape = _LAN
    expectation: Expectation = _KEPT
    duration_s: float = 3.0
    bookies: int = 3
    quorum: tuple[int, int, int] = (3, 3, 2)
    writers: int = 2
    # All bookies lose power at the same time.
    power_cuts: Times = NEVER
    # One bookie crashes and restarts; one crashes for good.
    crashes: Times = NEVER
    losses: Times = NEVER
    # Other processes recover ledgers under their writers.
    recoveries: Times = NEVER
    # The link between a writer or a recovering process and a bookie is cut, one way or both.
    cuts: Times = NEVER
    # The syncs of a bookie take seconds for a while.
    slow_syncs: Times = NEVER
    # Faults of the victim: bits flip and sectors are lost; an empty disk replaces its disk; its syncs lie and it loses
    # power.
    rots: Times = NEVER
    emptied: Times = NEVER
    lies: Times = NEVER
    # The disk of one bookie fills up, and then the disks of all; a sync fails.
    full: Times = NEVER
    failed_syncs: Times = NEVER
    # The node of a ledger, or the identity of the cluster, is wrong for a while.
    metadata_damages: Times = NEVER
    # Ledgers are deleted, and bookies compact.
    deletions: Times = NEVER
    # An operator drains a running bookie, or copies the ledgers of a lost one.
    repairs: Times = NEVER


def _case(name: str, summary: str, **fields: object) -> DurableScenario:
    return DurableScenario(name=f"durable-{name}", summary=summary, **fields)  # type: ignore[arg-type]  # by name


DURABLE_SCENARIOS = (
    _case("power", "All bookies lose power right after they acknowledge.", power_cuts=(1, 3)),
    _case(
        "recovery",
        "Several clients recover ledgers concurrently with their writers while bookies crash and are "
        "cut off.",
        recoveries=(1, 4),
        crashes=(0, 3),
        cuts=(0, 4),
        bookies=4,
    ),
    _case(
        "emptied",
        "A bookie with an emptied disk and a known name is rejected.",
        emptied=(1, 1),
        crashes=(1, 3),
    ),
    _case("torn", "Crashes of single bookies tear writes.", crashes=(3, 8), duration_s=4.0),
    _case(
        "rot",
        "Bits flip and sectors are lost on one bookie.",
        rots=(1, 4),
        crashes=(1, 3),
        quorum=(3, 2, 2),
        bookies=4,
    ),
    _case(
        "lies", "The disk of one bookie acknowledges syncs that it did not perform.", lies=(1, 2), bookies=4
    ),
    _case(
        "metadata",
        "Metadata is damaged for a while: bookies serve nothing from it and delete nothing.",
        metadata_damages=(1, 3),
        crashes=(0, 1),
    ),
    _case(
        "full",
        "Disks fill up and syncs fail, first on one bookie and then on too many.",
        full=(1, 2),
        failed_syncs=(0, 2),
        duration_s=5.0,
    ),
    _case(
        "bookies",
        "Bookies are lost, slow, drained and replaced. Ledgers are deleted and compacted.",
        bookies=5,
        losses=(0, 1),
        crashes=(0, 3),
        slow_syncs=(0, 2),
        repairs=(0, 2),
        deletions=(0, 3),
        cuts=(0, 2),
        duration_s=5.0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScenario(Scenario):
    """A store, bookies, and hubs that own logs, under clients that append and read through any hub."""

    workload: Workload = _NO_CLIENTS
    topology: NetworkShape = _LAN
    expectation: Expectation = _LOGS
    duration_s: float = 4.0
    hubs: int = 3
    bookies: int = 3
    quorum: tuple[int, int, int] = (3, 3, 2)
    topics: int = 2
    clients: int = 3
    # Whether the first topic is durable: clients publish some of its messages, and clients of all hubs subscribe to it.
    is_durable: bool = False
    # Durable subscribers to the first topic; whether they form a group; whether they reject some messages, which the
    # hub redelivers and finally moves to a dead-letter topic; number of subscriber crashes.
    subscribers: int = 0
    is_group: bool = False
    is_retried: bool = False
    subscriber_crashes: Times = NEVER
    # Smart publishers to the first topic, which resend unanswered messages; how often one loses its connections.
    publishers: int = 0
    client_cuts: Times = NEVER
    # Number of sites of hubs and bookies; at the end all logs move to one site, and the other sites lose their bookies.
    sites: int = 1
    # Hubs of a release without logs, beside the others; clients publish to the first topic there, too.
    old_hubs: int = 0
    # Whether hubs can verify that the process of another hub has ended.
    is_one_machine: bool = False
    # Whether all logs start at one hub, and hubs spread them without a controller, but not to a busy hub.
    is_unled: bool = False
    # Bytes after which a log rolls to a new ledger; 0: the production value, which no run reaches.
    roll_bytes: int = 0
    # The older entries of a log are trimmed.
    trims: Times = NEVER
    # Whether the first topic, which is durable then, keeps entries until all subscribers have acknowledged them.
    is_consumed: bool = False
    # A topic gets another home.
    moves: Times = NEVER
    # A hub crashes and restarts; a hub shuts down cleanly and restarts.
    crashes: Times = NEVER
    stops: Times = NEVER
    # A hub pauses for longer than its session timeout, and then resumes.
    zombies: Times = NEVER
    # A hub is cut off from the store, or from the store and the other hubs, for a while.
    store_cuts: Times = NEVER
    cuts: Times = NEVER
    # The store is down for a while.
    outages: Times = NEVER
    # Connections between two hubs are reset, or cut for a while.
    link_cuts: Times = NEVER
    # One bookie crashes and restarts.
    bookie_crashes: Times = NEVER


def _log_case(name: str, summary: str, **fields: object) -> LogScenario:
    return LogScenario(name=f"durable-{name}", summary=summary, **fields)  # type: ignore[arg-type]  # by name


LOG_SCENARIOS = (
    _log_case(
        "moves", "Logs move between hubs under appends and blocking reads.", moves=(4, 12), stops=(0, 1)
    ),
    _log_case(
        "zombie",
        "Log owners pause until other hubs own their logs, then resume.",
        zombies=(1, 3),
        moves=(0, 3),
    ),
    _log_case(
        "cut-off",
        "Log owners are cut off from the store, from other hubs, or from both.",
        store_cuts=(2, 4),
        cuts=(2, 4),
        moves=(0, 1),
    ),
    _log_case(
        "outage",
        "The store is down for a while, and hubs and bookies crash.",
        outages=(1, 2),
        bookie_crashes=(0, 2),
    ),
    _log_case(
        "doubt",
        "Log owners crash and links between hubs fail with commands in flight.",
        crashes=(1, 3),
        link_cuts=(1, 4),
        moves=(0, 4),
    ),
    _log_case(
        "topics",
        "Clients publish to a durable topic while it moves and its owners crash and are cut off.",
        is_durable=True,
        moves=(2, 6),
        crashes=(0, 2),
        store_cuts=(0, 2),
        zombies=(0, 1),
    ),
    _log_case(
        "once",
        "Smart publishers resend unanswered messages while owners crash, pause and move. Each message "
        "is in the log once.",
        expectation=_ONCE,
        is_durable=True,
        publishers=3,
        clients=1,
        roll_bytes=3_000,
        crashes=(1, 3),
        client_cuts=(2, 6),
        zombies=(0, 1),
        moves=(0, 4),
        link_cuts=(0, 2),
        store_cuts=(0, 1),
    ),
    _log_case(
        "marks",
        "Durable subscribers resume at their mark while subscribers, hubs and the topic come and go.",
        expectation=_SUBSCRIBERS,
        subscribers=2,
        subscriber_crashes=(1, 4),
        moves=(0, 4),
        crashes=(0, 2),
        store_cuts=(0, 1),
        link_cuts=(0, 2),
    ),
    _log_case(
        "groups",
        "Consumers share the messages of a topic and take over the pending entries of a lost consumer.",
        expectation=_SUBSCRIBERS,
        subscribers=3,
        is_group=True,
        subscriber_crashes=(1, 4),
        moves=(0, 4),
        crashes=(0, 2),
        link_cuts=(0, 2),
    ),
    _log_case(
        "retries",
        "Consumers reject messages. The hub redelivers them and moves them to a dead-letter topic "
        "while hubs come and go.",
        expectation=_SUBSCRIBERS,
        subscribers=2,
        is_group=True,
        is_retried=True,
        subscriber_crashes=(0, 2),
        moves=(0, 4),
        crashes=(0, 2),
    ),
    _log_case(
        "trim",
        "Logs are trimmed and roll to new ledgers. Old ledgers are deleted while logs move and owners crash.",
        expectation=_TRIMMED,
        roll_bytes=600,
        trims=(2, 6),
        moves=(0, 4),
        crashes=(0, 2),
        bookie_crashes=(0, 1),
    ),
    _log_case(
        "sites",
        "Logs move between sites and continue there. Old ledgers follow slowly until one site has all "
        "of them.",
        sites=2,
        hubs=4,
        bookies=6,
        roll_bytes=1_500,
        moves=(3, 8),
        crashes=(0, 2),
        link_cuts=(0, 2),
        bookie_crashes=(0, 2),
        store_cuts=(0, 1),
    ),
    _log_case(
        "unled",
        "No controller leads. Logs of one hub spread to other hubs, and logs of a dead hub go to hubs "
        "with capacity.",
        is_unled=True,
        hubs=4,
        topics=6,
        clients=2,
        crashes=(0, 2),
        link_cuts=(0, 2),
        store_cuts=(0, 1),
    ),
    _log_case(
        "machine",
        "Hubs of one machine take over the logs of a hub as soon as its process has ended.",
        is_one_machine=True,
        is_durable=True,
        publishers=1,
        expectation=_ONCE,
        crashes=(2, 5),
        moves=(0, 4),
        zombies=(0, 1),
        link_cuts=(0, 2),
        store_cuts=(0, 1),
    ),
    _log_case(
        "old-hub",
        "A hub of a release without logs has a share of the ring and of the topics. It never receives "
        "a durable topic.",
        is_durable=True,
        old_hubs=1,
        moves=(3, 8),
        stops=(0, 1),
        store_cuts=(0, 1),
        link_cuts=(0, 2),
    ),
    _log_case(
        "everything",
        "All faults at once: hubs, bookies, subscribers, store and links fail while logs move and roll.",
        expectation=Expectation(properties=("kept", "one epoch", "prefixes", "marks", "once")),
        is_durable=True,
        subscribers=2,
        publishers=1,
        client_cuts=(0, 2),
        subscriber_crashes=(0, 2),
        bookies=4,
        roll_bytes=2_000,
        moves=(1, 5),
        crashes=(0, 2),
        stops=(0, 1),
        zombies=(0, 1),
        store_cuts=(0, 2),
        cuts=(0, 1),
        outages=(0, 1),
        link_cuts=(0, 3),
        bookie_crashes=(0, 2),
        duration_s=5.0,
    ),
    _log_case(
        "consumed",
        "Entries are deleted once all durable subscribers have acknowledged them, and not before, "
        "while processes come and go.",
        expectation=Expectation(properties=("kept", "one epoch", "marks")),
        is_durable=True,
        is_consumed=True,
        subscribers=2,
        subscriber_crashes=(1, 4),
        moves=(0, 4),
        crashes=(0, 2),
    ),
)
