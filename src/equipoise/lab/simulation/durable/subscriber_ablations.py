"""Safeguards of durable subscribers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.client.durable_subscription import DurableSubscription
from equipoise.hub.logs import retries
from equipoise.hub.logs.retries import LogRetries
from equipoise.lab.simulation.ablation import Ablation, replaced, replacing
from equipoise.lab.simulation.checkers import kept, marks
from equipoise.log import retention
from equipoise.log.consumer_group import ConsumerGroup, PendingEntry
from equipoise.log.ids import ID_MAX, EntryId, after

__all__ = ["SUBSCRIBER_ABLATIONS"]


async def _ask_for_nothing(subscription: DurableSubscription) -> None:
    """Continue with new entries, without the pending entries of a former connection or process."""
    subscription._started.set()


@contextmanager
def _uncounted() -> Iterator[None]:
    """Entries that were delivered to a former process do not count as redelivered."""
    attach = ConsumerGroup.attach

    def attach_alike(
        group: ConsumerGroup,
        subscriber: bytes,
        name: bytes,
        at_ms: int,
        *,
        is_exclusive: bool,
        is_restarted: bool,
    ) -> None:
        attach(group, subscriber, name, at_ms, is_exclusive=is_exclusive, is_restarted=False)

    with replaced(ConsumerGroup, "attach", attach_alike):
        yield


@contextmanager
def _without_token() -> Iterator[None]:
    """Append to the dead-letter topic without a token, so that it cannot detect duplicates."""
    letter = retries._letter

    def plain(
        topic: bytes, group: ConsumerGroup, at: EntryId, entry: PendingEntry, piece: bytes
    ) -> list[bytes]:
        words = letter(topic, group, at, entry, piece)
        return words[:2] + words[5:]

    with replaced(retries, "_letter", plain):
        yield


SUBSCRIBER_ABLATIONS = (
    Ablation(
        "subscriber-place",
        "A read by an earlier incarnation of a durable subscriber takes no entries.",
        marks.NAME,
        "durable-marks",
        replacing(ConsumerGroup, "is_displaced", lambda group, name: False),
        seed=119,
    ),
    Ablation(
        "subscriber-pending",
        "A durable subscriber requests the entries that were delivered to its earlier incarnations.",
        marks.NAME,
        "durable-marks",
        replacing(DurableSubscription, "_read_pending", _ask_for_nothing),
    ),
    Ablation(
        "subscriber-count",
        "Entries that an earlier process may have handled are marked as redelivered.",
        marks.NAME,
        "durable-marks",
        _uncounted,
        seed=1,
    ),
    Ablation(
        "retry-clock",
        "An entry that is not acknowledged in time is redelivered to another consumer of the group.",
        marks.NAME,
        "durable-groups",
        replacing(ConsumerGroup, "_make_due", lambda group, at, entry, due_ms: None),
        seed=0,
    ),
    Ablation(
        "retry-last",
        "An entry that exceeds its delivery limit moves to the dead-letter topic.",
        marks.NAME,
        "durable-retries",
        replacing(LogRetries, "_send_dead_letters", lambda self, live: None),
    ),
    Ablation(
        "retry-token",
        "The dead-letter topic holds an entry once, even if two owners have moved it.",
        marks.NAME,
        "durable-retries",
        _without_token,
        seed=32,
    ),
    Ablation(
        "trim-marks",
        "An entry is kept until every durable subscriber has acknowledged it.",
        kept.NAME,
        "durable-consumed",
        replacing(retention, "_first_needed", lambda group: after(group.last) or ID_MAX),
    ),
)
