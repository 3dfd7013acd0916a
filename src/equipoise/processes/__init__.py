"""Processes: children that never outlive their parent (start, wait until ready, restart, stop), and ports."""

from equipoise.processes.backoff import Backoff, BackoffSettings
from equipoise.processes.child import Child, ChildSpec, spawn
from equipoise.processes.ports import check_port, free_port
from equipoise.processes.supervisor import Change, Phase, Supervisor

__all__ = [
    "Backoff",
    "BackoffSettings",
    "Change",
    "Child",
    "ChildSpec",
    "Phase",
    "Supervisor",
    "check_port",
    "free_port",
    "spawn",
]
