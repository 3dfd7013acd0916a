"""How the swarm's topic follows it: when it crossed, whether its limit broke, and when it held again. Pure."""

from __future__ import annotations

from equipoise.lab.demo.scene import Scene

__all__ = ["Following"]

# One second under the limit may be luck.
HELD_LOOKS = 3


class Following:
    """Owned by the show; told with `leave` and `see`. Everything is of the last crossing."""

    def __init__(self) -> None:
        self.site = ""
        # After it took off.
        self.crossings = 0
        # Worst since the crossing.
        self.latency_ms_max: float | None = None
        self.was_broken = False
        # How long after the crossing the limit held again, if it was broken; for the report.
        self.back_s: float | None = None
        self._left_at_s = 0.0
        self._held = 0
        self._held_since_s = 0.0

    def leave(self, site: str, at_s: float) -> None:
        """The swarm goes to a site."""
        self.crossings += bool(self.site)
        self.site, self._left_at_s = site, at_s
        self.latency_ms_max, self.was_broken, self.back_s, self._held = None, False, None, 0

    def see(self, scene: Scene) -> None:
        swarm = scene.swarm
        if swarm is None or swarm.latency_ms is None:
            return
        self.latency_ms_max = max(self.latency_ms_max or 0.0, swarm.latency_ms)
        if swarm.latency_ms > swarm.limit_ms or swarm.home_site != self.site:
            self.was_broken |= swarm.latency_ms > swarm.limit_ms
            self._held = 0
            return
        if not self._held:
            self._held_since_s = scene.at_s
        self._held += 1
        if self.was_broken and self.back_s is None and self.is_near:
            self.back_s = self._held_since_s - self._left_at_s

    @property
    def is_near(self) -> bool:
        """The topic is where the swarm is, and its limit has held for some looks."""
        return self._held >= HELD_LOOKS
