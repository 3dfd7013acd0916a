"""Child processes that never outlive their parent, their logs, and ports."""

from equipoise.processes.child import (
    LOG_BYTES_MAX,
    Check,
    Child,
    ChildSpec,
    HealthSettings,
    ask,
    bound_log,
    log_since,
    spawn,
    until_it_hangs,
)
from equipoise.processes.identity import is_process_gone, process_identity
from equipoise.processes.machine import check_port, free_port, is_port_free
from equipoise.processes.supervisor import BackoffSettings, Phase, PhaseChange, RestartBackoff, Supervisor

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
    "is_port_free",
    "is_process_gone",
    "log_since",
    "process_identity",
    "spawn",
    "until_it_hangs",
]
