"""What a program on a simulated host would learn of its own process."""

from __future__ import annotations

from equipoise.lab.simulation.host import Host

__all__ = ["HostProcess"]


class HostProcess:
    """For a hub's telemetry: the work charged to the host's processor. There is no memory to tell of."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def cpu_s(self) -> float:
        return 0.0 if self._host.cpu is None else self._host.cpu.busy_s

    def resident_bytes(self) -> int:
        return 0

    def memory_bytes_max(self) -> int:
        return 0

    def network_bytes_per_s(self) -> float:
        return 0.0
