"""The text of INFO: Redis's sections with the fields that apply to a hub, and three sections of Equipoise."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.quotas import Resource
from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.commands.connection import REDIS_VERSION
from equipoise.hub.telemetry.gauges import reply_bytes
from equipoise.version import __version__

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Totals

# Most topics with cuts that INFO lists, the worst first; the sums include all.
TOPICS_SHOWN_MAX = 64


def render_info(core: HubCore, session: Session, wanted: set[str], totals: Totals) -> str:
    parts = []
    for name, facts_of in SECTIONS.items():
        if name in wanted:
            lines = [
                f"# {name.capitalize()}",
                *(f"{key}:{fact}" for key, fact in facts_of(core, totals).items()),
            ]
            if name == "equipoise":
                lines += _topic_lines(core, session) + _loss_lines(core, session)
            parts.append("\r\n".join(lines) + "\r\n")
    return "\r\n".join(parts)


def _server(core: HubCore, totals: Totals) -> dict[str, object]:
    uptime_s = int(core.now() - core.started_at)
    return {
        "redis_version": REDIS_VERSION,
        "redis_mode": "standalone",
        "equipoise_version": __version__,
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "arch_bits": 64,
        "process_id": os.getpid(),
        "run_id": f"{core.incarnation:040x}",
        "tcp_port": core.port,
        "server_time_usec": int(core.shell.wall_time() * 1_000_000),
        "uptime_in_seconds": uptime_s,
        "uptime_in_days": uptime_s // 86_400,
    }


def _clients(core: HubCore, totals: Totals) -> dict[str, object]:
    return {
        "connected_clients": len(core.sessions),
        "maxclients": core.limits.connections_max,
        "blocked_clients": 0 if core.logs is None else core.logs.blocked_clients,
        "pubsub_clients": sum(session.is_subscribed for session in core.sessions.values()),
    }


def _memory(core: HubCore, totals: Totals) -> dict[str, object]:
    resident_bytes = core.shell.resident_bytes()
    return {
        "used_memory": resident_bytes,
        "used_memory_rss": resident_bytes,
        "total_system_memory": core.shell.memory_bytes(),
        "maxmemory": 0,
        "maxmemory_policy": "noeviction",
        "mem_clients_normal": core.backlogs.bytes,
    }


def _persistence(core: HubCore, totals: Totals) -> dict[str, object]:
    """ioredis reads this section before it is ready."""
    return {"loading": 0, "rdb_changes_since_last_save": 0, "aof_enabled": 0}


def _stats(core: HubCore, totals: Totals) -> dict[str, object]:
    stats, index = core.stats, core.index
    return {
        "total_connections_received": stats.connections,
        "total_commands_processed": stats.commands,
        "total_net_input_bytes": stats.input_bytes,
        "total_net_output_bytes": totals.bytes_out + reply_bytes(stats),
        "rejected_connections": stats.connections_refused,
        "total_error_replies": stats.errors,
        "acl_access_denied_auth": stats.logins_failed,
        "acl_access_denied_channel": stats.denied,
        "pubsub_channels": index.heard,
        "pubsub_patterns": len(index.patterns),
        "pubsubshard_channels": len(index.shards),
        **{f"eq_{name}": fact for name, fact in core.filtering.facts().items()},
        "eq_content_state": core.cluster.edge.state,
        "eq_content_cluster_state": core.cluster.edge.cluster_state,
        **{f"eq_{name}": fact for name, fact in core.cluster.edge.facts._asdict().items()},
    }


def _equipoise(core: HubCore, totals: Totals) -> dict[str, object]:
    stats, backlogs = core.stats, core.backlogs
    return {
        "hub": core.settings.name,
        "health": core.health.text,
        "incarnation": core.incarnation,
        "access_version": core.users.version,
        "specs_version": core.specs.version,
        "lease": core.lease.text,
        "standstills": core.standstill.count,
        "long_work_turns": core.turns.count,
        "long_work_ms_max": f"{1e3 * core.turns.turn_s_max:.3f}",
        "owners_over_share": len(core.turns.shares.limited),
        "unfinished_input_bytes": core.unfinished.bytes,
        "topics": len(core.index.topics),
        "topics_bytes": core.quotas.total(Resource.TOPIC_BYTES),
        "topics_forgotten": core.index.forgotten,
        "published": totals.published,
        "delivered": totals.delivered,
        "clients_lagging": len(backlogs.lagging),
        "unsent_bytes": backlogs.bytes,
        "slow_disconnects": backlogs.cuts,
        "deliveries_dropped": backlogs.drops,
        **core.losses.facts(),
        "protocol_errors": stats.protocol_errors,
        "connections_paced": stats.connections_paced,
        "subscriptions_revoked": stats.revoked,
    }


def _telemetry(core: HubCore, totals: Totals) -> dict[str, object]:
    metering, ring = core.metering, core.metering.ring
    return {
        "telemetry_recorded": int(metering.is_on),
        "telemetry_incarnation": ring.incarnation,
        "telemetry_records": len(ring),
        "telemetry_oldest": ring.oldest,
        "telemetry_end": ring.end,
        "telemetry_bytes": ring.bytes,
        "telemetry_topics_active": metering.topics_active,
        "telemetry_slices": metering.slices,
        "telemetry_arrivals_topics": metering.arrivals.topics,
        "telemetry_arrivals_left_out": metering.arrivals.left_out,
        "telemetry_arrivals_kept": metering.arrivals.kept,
    }


def _cluster(core: HubCore, totals: Totals) -> dict[str, object]:
    """Redis clients read `cluster_enabled`: 0, because a hub is no node of a Redis Cluster."""
    return {"cluster_enabled": 0, **cluster_counters(core.cluster)}


def _coordinates(core: HubCore, totals: Totals) -> dict[str, object]:
    places, probing = core.places, core.places.probing
    own, estimator = places.own, probing.estimator
    facts: dict[str, object] = {"coordinate_known": int(own is not None)}
    if own is not None:
        facts |= {
            "coordinate_point_ms": ",".join(f"{1e3 * part:.3f}" for part in own.point_s),
            "coordinate_height_ms": f"{1e3 * own.height_s:.3f}",
            "coordinate_adjustment_ms": f"{1e3 * own.adjustment_s:.3f}",
            "coordinate_error": f"{own.error:.4f}",
        }
    return facts | {
        "probed_hubs": probing.peers,
        "probes_sent": probing.sent,
        "probes_answered": probing.answered,
        "probes_discarded": probing.discarded,
        "probes_outliers": estimator.outliers,
        "coordinate_resets": estimator.resets,
        "clients_with_coordinate": places.located,
        "clients_with_implausible_coordinate": places.doubted,
        "clients_read": places.read,
    }


def _topic_lines(core: HubCore, session: Session) -> list[str]:
    """One line per topic whose subscribers were cut or lost messages, if the session may see the topic."""
    hurt = [
        topic
        for topic in core.backlogs.hurt
        if session.may(Action.SUBSCRIBE, topic.name) or session.may(Action.PUBLISH, topic.name)
    ]
    hurt.sort(key=lambda topic: (-topic.drops, topic.name))
    return [
        f"topic:{topic.name.decode('utf-8', 'backslashreplace')!r}:slow_disconnects={topic.cuts},"
        f"deliveries_dropped={topic.drops},published={topic.published},delivered={topic.delivered}"
        for topic in hurt[:TOPICS_SHOWN_MAX]
    ]


def _loss_lines(core: HubCore, session: Session) -> list[str]:
    """One line per topic with messages lost before this hub, the latest last, if the session may see the topic."""
    lost = [
        (name, loss)
        for name, loss in core.losses.by_topic.items()
        if session.may(Action.SUBSCRIBE, name) or session.may(Action.PUBLISH, name)
    ]
    return [
        f"loss:{name.decode('utf-8', 'backslashreplace')!r}:messages_missed={loss.messages},gaps_unknown={loss.gaps}"
        for name, loss in lost[-TOPICS_SHOWN_MAX:]
    ]


SECTIONS = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "cluster": _cluster,
    "equipoise": _equipoise,
    "telemetry": _telemetry,
    "coordinates": _coordinates,
}
# Sections that need the sums over all topics.
COUNTING = frozenset(("stats", "equipoise"))
