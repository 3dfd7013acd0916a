"""Former names of settings: an old name is rejected with an error that has the new name.

Dotted names are tables and keys of a settings file. An entry is dropped two releases after the rename.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.errors import SettingsError

__all__ = ["CLIENT_SETTINGS", "CONTROLLER_SETTINGS", "HUB_SETTINGS", "refuse_renamed"]

HUB_SETTINGS = {
    "limits.unauthenticated_s": "limits.unauthenticated_timeout_s",
    "limits.login_check_s": "limits.login_check_timeout_s",
    "cluster.held_bytes_max": "cluster.pending_bytes_max",
    "cluster.handover_s": "cluster.handover_retry_s",
    "cluster.unwanted_s": "cluster.unsubscribe_delay_s",
    "cluster.acknowledge_s": "cluster.ack_interval_s",
    "cluster.silence_s": "cluster.link_timeout_s",
    "cluster.redial_s": "cluster.reconnect_interval_s_max",
    "cluster.telling": "cluster.redirect_mode",
    "cluster.told_per_s": "cluster.redirects_per_s",
    "telemetry.is_recorded": "telemetry.enabled",
    "telemetry.keep_s": "telemetry.retention_s",
    "telemetry.arrivals_s": "telemetry.arrivals_duration_s",
    "membership.join_patience_s": "membership.join_timeout_s",
    "membership.load_report_s": "membership.load_report_interval_s",
    "membership.retry_s": "membership.retry_interval_s",
    "coordinates.probe_s": "coordinates.probe_interval_s",
    "coordinates.asks_kernel": "coordinates.tcp_rtt_for",
    "coordinates.doubt_s": "coordinates.distance_slack_s",
}
CONTROLLER_SETTINGS = {
    "controller.pressing_s": "controller.urgent_period_s",
    "controller.start_s_max": "controller.hub_start_timeout_s",
    "controller.refresh_s": "controller.refresh_interval_s",
    "controller.series_s": "controller.chart_history_s",
    "planner.hold_max_s": "planner.move_timeout_s",
    "planner.moves_in_hand_max": "planner.moves_in_flight_max",
    "planner.release_patience_s": "planner.release_timeout_s",
}
CLIENT_SETTINGS = {
    "first_connect_patience_s": "first_connect_timeout_s",
    "window_messages_max": "in_flight_messages_max",
    "window_bytes_max": "in_flight_bytes_max",
    "route_s": "route_idle_s",
    "merge_s": "merge_timeout_s",
    "coordinate_gateway_patience_s": "coordinate_gateway_timeout_s",
}


def refuse_renamed(values: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    """Raises SettingsError if `values`, tables of settings or settings, has an old name."""
    for old, new in renamed.items():
        table, _, key = old.rpartition(".")
        found = values.get(table) if table else values
        if isinstance(found, Mapping) and key in found:
            raise SettingsError(f"the setting {old} was renamed to {new}")
