"""How busy this process is: the share of one core that it has used lately."""

from __future__ import annotations

import time

__all__ = ["CpuLoad"]


class CpuLoad:
    """Each call tells the share since the call before; a hub is one process on one core."""

    def __init__(self) -> None:
        self._cpu_s = time.process_time()
        self._at_s = time.monotonic()

    def __call__(self) -> float:
        cpu_s, at_s = time.process_time(), time.monotonic()
        passed_s = at_s - self._at_s
        load_ratio = (cpu_s - self._cpu_s) / passed_s if passed_s > 0 else 0.0
        self._cpu_s, self._at_s = cpu_s, at_s
        return round(min(load_ratio, 1.0), 3)
