"""The safeguards of hubs that own logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from equipoise.errors import LedgerError
from equipoise.hub.cluster.lease import Lease
from equipoise.hub.cluster.log_calls import LogCalls
from equipoise.hub.logs.live_log import LiveLog
from equipoise.lab.simulation.ablation import Ablation, replaced
from equipoise.lab.simulation.checkers import kept, log_views
from equipoise.ledger.log import OpenLedger
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.store.records.topic_logs import LogNode, StoredLog, TopicLogsStore

__all__ = ["LOG_ABLATIONS"]

_save = TopicLogsStore.save


async def _overwrite(
    records: TopicLogsStore, topic: bytes, node: LogNode, version: int | None
) -> StoredLog | None:
    """Set the node whatever has become of it."""
    saved = await _save(records, topic, node, version)
    if saved is not None:
        return saved
    return await _save(records, topic, node, (await records.load(topic)).version)


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
    with replaced(BookieLedgers, "recover", _look_only), replaced(Lease, "is_valid", lambda lease, now: True):
        yield


@contextmanager
def _overtaking() -> Iterator[None]:
    """Send every command by itself, without waiting for the answer to the one before."""
    drain = LogCalls._drain

    def drain_each(calls: LogCalls, key: bytes) -> None:
        queue = calls._queues[key]
        queue.calls.reverse()
        drain(calls, key)

    with replaced(LogCalls, "_drain", drain_each):
        yield


def _with(owner: object, attribute: str, replacement: object) -> Callable[[], AbstractContextManager[None]]:
    return lambda: replaced(owner, attribute, replacement)


LOG_ABLATIONS = (
    Ablation(
        "log-claim",
        "a topic is claimed, and its list of ledgers changed, by compare-and-set",
        log_views.ONE_EPOCH,
        "durable-cut-off",
        _with(TopicLogsStore, "save", _overwrite),
        seed=26,
    ),
    Ablation(
        "log-fencing",
        "the next owner fences the last ledger, which keeps what was acknowledged even where no lease does",
        kept.NAME,
        "durable-cut-off",
        _without_fence_and_lease,
        seed=3,
    ),
    Ablation(
        "log-lease",
        "a hub whose lease has run out answers nothing, no read either",
        log_views.PREFIXES,
        "durable-cut-off",
        _with(Lease, "is_valid", lambda lease, now: True),
        seed=7,
    ),
    Ablation(
        "log-seal",
        "a log is given away once all that was appended is committed",
        kept.NAME,
        "durable-moves",
        _with(LiveLog, "seal", _seal_at_once),
    ),
    Ablation(
        "log-order",
        "commands on a log are run in the order in which they came",
        kept.NAME,
        "durable-moves",
        _overtaking,
    ),
)
