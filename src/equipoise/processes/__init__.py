"""Processes: children that never outlive their parent (start, ask, restart, stop), their logs, and ports."""

from equipoise.processes.backoff import BackoffSettings, RestartBackoff
from equipoise.processes.child import Child, ChildSpec, spawn
from equipoise.processes.health import Check, HealthSettings, ask, until_it_hangs
from equipoise.processes.identity import is_process_gone, process_identity
from equipoise.processes.logfile import LOG_BYTES_MAX, bound_log, log_since
from equipoise.processes.ports import check_port, free_port
from equipoise.processes.supervisor import Phase, PhaseChange, Supervisor

__all__ = [
    "LOG_BYTES_MAX",
    "BackoffSettings",
    "Check",
    "Child",
    "ChildSpec",
    "HealthSettings",
    "Phase",
    "PhaseChange",
    "RestartBackoff",
    "Supervisor",
    "ask",
    "bound_log",
    "check_port",
    "free_port",
    "is_process_gone",
    "log_since",
    "process_identity",
    "spawn",
    "until_it_hangs",
]
