"""Cluster counters of a hub, for INFO and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.topic_limit import waiting_messages
from equipoise.limits import TOKEN

if TYPE_CHECKING:
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.topic import Topic

__all__ = ["cluster_counters", "limit_facts"]


def cluster_counters(cluster: OtherHubs) -> dict[str, int]:
    """Counters since this incarnation of the hub began, and current values; empty without a cluster."""
    if not isinstance(cluster, Cluster):
        return {}
    links = list(cluster.out.values())
    moves, ingress, merging = cluster.moves, cluster.ingress, cluster.merging
    return {
        "plan_version": cluster.router.version,
        # Whether every live hub has applied the plan and the set of live hubs.
        "plan_is_applied_by_all": int(cluster.is_barrier_passed),
        "hubs": len(cluster.router.peers) + 1,
        "links": len(links),
        "links_connected": sum(link.is_connected for link in links),
        "links_unacked_bytes": sum(link.kept_bytes for link in links),
        # Generations of links that were abandoned, because a buffer was full or the receiver found an error.
        "links_overflowed": sum(link.voided for link in links),
        # Hubs whose limits differ from those of this one; the log names them.
        "limits_differing": sum(bool(link.differences) for link in links),
        # Filters requested from other hubs and by other hubs; and messages that filters kept off links.
        "filter_covers": cluster.interests.covers,
        "filters_asked": cluster.asked.filters,
        "messages_kept_off_links": cluster.asked.kept_off,
        "moves_started": moves.begun,
        "moves_finished": moves.finished,
        "moves_retried": moves.retried,
        "moves_in_flight": moves.under_way,
        # Handovers done in which this hub was the next home.
        "moves_taken": cluster.handover.taken,
        # Topics that are to be opened here; and all topics with a handover in progress, in either direction.
        "topics_opening": len(cluster.handover.opening),
        "topics_moving": moves.under_way + len(cluster.handover.opening),
        # Messages on their way to homes: those that wait; those lost with a dead hub; those dropped for lack of room.
        "ingress_pending_bytes": ingress.budget.used,
        "ingress_pending_messages": ingress.budget.messages,
        "messages_lost": ingress.lost,
        "messages_dropped": ingress.dropped,
        # Messages of limited topics: numbered here, rejected, and waiting for tokens.
        "limits_admitted": cluster.limits.tokens.admitted,
        "limits_refused": cluster.limits.clients.refused,
        "limits_waiting_messages": cluster.limits.clients.budget.messages,
        "limits_waiting_bytes": cluster.limits.clients.budget.used,
        # Messages received ahead of their predecessors, which wait; streams that had to drop such messages.
        "merge_pending_bytes": merging.pending_bytes,
        "merge_overflows": merging.overflows,
    }


def limit_facts(streams: Sequence[Topic]) -> dict[str, float]:
    """Counters of a topic's rate limit at this hub, summed over its trunk and lanes; empty without a rate limit."""
    limits = [stream.limit for stream in streams if stream.limit is not None]
    if not limits:
        return {}
    return {
        "limit_rate_per_s": sum(limit.share.rate for limit in limits) / 1e6,
        "limit_burst": sum(limit.share.depth for limit in limits) / TOKEN,
        "limit_admitted": sum(limit.admitted for limit in limits),
        "limit_refused": sum(limit.refused for limit in limits),
        "limit_waiting": waiting_messages(streams),
        "limit_delayed": sum(limit.delayed for limit in limits),
        "limit_delay_s": sum(limit.delay_ns for limit in limits) / 1e9,
        "limit_delay_s_max": max(limit.delay_ns_max for limit in limits) / 1e9,
    }
