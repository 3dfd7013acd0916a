"""`can_host` of ePulsar's Algorithm 1 on predicted load: whether a hub can host one more topic.

Numbers of one hub at a time, as plain floats: placing calls this a few times for each of 100,000 topics. The load ratio
is that of `load.Capacities`; a hub may also have a maximum rate of messages (3.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.plan.load import Capacities

__all__ = ["HubHeadroom"]

Floats = NDArray[np.float64]

# As in `Capacities.lag_after`.
_LAG_FLOW_MIN = 0.25
# Rounding difference between sums whose parts were added in another order.
_ROUNDING = 1e-9


class HubHeadroom:
    """The load of hubs while topics are placed. Owned by the placing step; changes through `take` and `give`."""

    def __init__(
        self,
        capacities: Capacities,
        *,
        bytes_per_s: Floats,
        work: Floats,
        on_hubs: tuple[Floats, Floats],
        flow_measured: Floats,
        ratio_max: float,
    ) -> None:
        """`bytes_per_s` and `work` are by topic; `on_hubs` is the present load of each hub by topics, in both."""
        self.ratio_max = ratio_max
        self._topic_bytes: list[float] = bytes_per_s.tolist()
        self._topic_work: list[float] = work.tolist()
        self._bytes: list[float] = (capacities.base_bytes + on_hubs[0]).tolist()
        self._work: list[float] = on_hubs[1].tolist()
        self._full: list[float] = capacities.bytes_full.tolist()
        self._price: list[float] = (capacities.price / capacities.cpu_full).tolist()
        self._cpu: list[float] = (capacities.base_cpu / capacities.cpu_full).tolist()
        self._lag: list[float] = capacities.lag_ratio.tolist()
        self._flow_measured: list[float] = flow_measured.tolist()
        self._topic_rate: Sequence[float] = ()
        self._rate: list[float] = []
        self._rate_max: list[float] = []

    def bound_rates(self, topic_rate: Floats, hub_rate: Floats, rate_max: Floats) -> None:
        """Also bound the messages per second of each hub."""
        self._topic_rate, self._rate = topic_rate.tolist(), hub_rate.tolist()
        self._rate_max = rate_max.tolist()

    def ratio(self, hub: int, more_bytes: float = 0.0, more_work: float = 0.0) -> float:
        bandwidth = (self._bytes[hub] + more_bytes) / self._full[hub]
        flow = max(bandwidth, self._cpu[hub] + self._price[hub] * (self._work[hub] + more_work))
        measured = self._flow_measured[hub]
        change = (flow - measured) / max(measured, _LAG_FLOW_MIN)
        return max(flow, self._lag[hub] * max(0.0, 1.0 + change))

    def if_hosted(self, topic: int, hub: int) -> float:
        """The hub's load ratio with the topic added."""
        return self.ratio(hub, self._topic_bytes[topic], self._topic_work[topic])

    def can_host(self, topic: int, hub: int) -> bool:
        if self.if_hosted(topic, hub) > self.ratio_max:
            return False
        return not self._rate or self._rate[hub] + self._topic_rate[topic] <= self._rate_max[hub]

    def is_over(self, hub: int) -> bool:
        """Whether it exceeds its bounds."""
        if self.ratio(hub) > self.ratio_max + _ROUNDING:
            return True
        return bool(self._rate) and self._rate[hub] > self._rate_max[hub] * (1 + _ROUNDING)

    def take(self, topic: int, hub: int) -> None:
        """Add the topic to the hub; below 0: no hub."""
        if hub >= 0:
            self._change(topic, hub, 1.0)

    def give(self, topic: int, hub: int) -> None:
        """Remove the topic from the hub; below 0: no hub."""
        if hub >= 0:
            self._change(topic, hub, -1.0)

    def _change(self, topic: int, hub: int, sign: float) -> None:
        self._bytes[hub] += sign * self._topic_bytes[topic]
        self._work[hub] += sign * self._topic_work[topic]
        if self._rate:
            self._rate[hub] += sign * self._topic_rate[topic]
