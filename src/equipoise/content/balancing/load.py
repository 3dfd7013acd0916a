"""The load of a hub as it reports it, and the measurement of that load.

Always true:
    a load is that of arriving messages, not of processed ones: a hub that drains a queue has a busy processor and a
    full
    output, and moving subscribers for that would empty the hub;
    subscribers that have attached elsewhere and only wait for their position do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from equipoise.content.balancing.delay_fit import DelayFit

__all__ = ["EdgeLoad", "LoadMeter", "delay_difference", "mean_load"]


class EdgeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One edge, or the mean of a cluster's edges."""

    # Incoming messages per second.
    input_rate: float = 0.0
    # From receiving a message to having written its outputs.
    delay_s: float = 0.0
    output_bytes_per_s: float = 0.0
    # Output capacity of the hub.
    bandwidth_bytes_per_s: float = 1.0
    # A subscriber with its filter counts as one.
    subscriptions: float = 0.0
    # Processor use without the messages'.
    other_cpu_ratio: float = 0.0
    memory_ratio: float = 0.0
    # The part of one subscription, and of one match, in the delay: the hub's profile.
    subscription_s: float = 0.0
    match_s: float = 0.0
    # The memory of one subscription.
    subscription_memory_ratio: float = 0.0
    input_wait_s: float = 0.0
    output_wait_s: float = 0.0

    @property
    def input_ratio(self) -> float:
        """The rate over the maximum rate, which is one message in each delay."""
        return self.input_rate * self.delay_s

    @property
    def output_ratio(self) -> float:
        return self.output_bytes_per_s / self.bandwidth_bytes_per_s

    @property
    def cpu_ratio(self) -> float:
        return self.other_cpu_ratio + self.input_ratio

    def with_costs_of(self, other: EdgeLoad) -> EdgeLoad:
        """A hub without matched messages does not know their cost: the other hub's is used."""
        if self.match_s or self.subscription_s:
            return self
        return msgspec.structs.replace(self, match_s=other.match_s, subscription_s=other.subscription_s)


def delay_difference(first_s: float, second_s: float, norm_s: float) -> float:
    """Equation 1 of [1]; negative if the second delay is longer."""
    return (first_s - second_s) / norm_s


def mean_load(loads: Iterable[EdgeLoad]) -> EdgeLoad:
    """The load of a cluster in a global PIE: ratios and delay are means over the edges."""
    every = list(loads)
    if not every:
        return EdgeLoad()

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(every)

    delay_s = mean(load.delay_s for load in every)
    bandwidth = mean(load.bandwidth_bytes_per_s for load in every)
    return EdgeLoad(
        # So that the product is the mean of the ratios.
        input_rate=mean(load.input_ratio for load in every) / delay_s if delay_s else 0.0,
        delay_s=delay_s,
        output_bytes_per_s=mean(load.output_ratio for load in every) * bandwidth,
        bandwidth_bytes_per_s=bandwidth,
        subscriptions=mean(load.subscriptions for load in every),
        other_cpu_ratio=mean(load.other_cpu_ratio for load in every),
        memory_ratio=mean(load.memory_ratio for load in every),
        input_wait_s=mean(load.input_wait_s for load in every),
        output_wait_s=mean(load.output_wait_s for load in every),
    )


class _Second:
    """The sums of one second."""

    __slots__ = ("arrived", "at", "delay_s", "input_wait_s", "matched", "output_bytes", "output_wait_s")

    def __init__(self, at: int) -> None:
        self.at = at
        self.arrived = 0
        self.matched = 0
        self.delay_s = 0.0
        self.output_bytes = 0.0
        self.input_wait_s = 0.0
        self.output_wait_s = 0.0


class LoadMeter:
    """Owned by a hub, which adds each message. Means are over `window_s`, or the time since the first message."""

    def __init__(
        self,
        *,
        window_s: float,
        bandwidth_bytes_per_s: float,
        subscription_s: float,
        match_s: float | None = 0.0,
    ) -> None:
        self._window_s = window_s
        self._bandwidth = bandwidth_bytes_per_s
        self._seconds: deque[_Second] = deque()
        self._began_s: float | None = None
        # From the hub's profile, until the fit has enough messages; `match_s` None: no profile.
        self._fit = DelayFit(subscription_s=subscription_s, match_s=match_s)

    def arrived(self, now_s: float) -> None:
        self._second(now_s).arrived += 1

    def matched(
        self,
        now_s: float,
        *,
        delay_s: float,
        matches: float,
        subscriptions: int,
        staying: int,
        staying_bytes: float,
        input_wait_s: float = 0.0,
        output_wait_s: float = 0.0,
    ) -> None:
        """A message was matched with this number of subscriptions.

        `staying` of these stay at the hub, and were sent this number of bytes.
        """
        second = self._second(now_s)
        self._fit.add(delay_s, matches, subscriptions)
        second.matched += 1
        second.delay_s += delay_s * (staying / subscriptions if subscriptions else 1.0)
        second.output_bytes += staying_bytes
        second.input_wait_s += input_wait_s
        second.output_wait_s += output_wait_s

    def load(
        self,
        now_s: float,
        *,
        subscriptions: int,
        memory_ratio: float = 0.0,
        other_cpu_ratio: float = 0.0,
        subscription_memory_ratio: float = 0.0,
    ) -> EdgeLoad:
        """`subscriptions`: those that stay."""
        self._forget(now_s)
        seconds = self._seconds
        arrived = sum(second.arrived for second in seconds)
        matched = sum(second.matched for second in seconds)
        began_s = now_s if self._began_s is None else self._began_s
        span_s = max(1.0, now_s - max(began_s, self._oldest(now_s)))
        rate = arrived / span_s
        share = 1.0 / matched if matched else 0.0
        delay_s = sum(second.delay_s for second in seconds) * share
        subscription_s, match_s = self._fit.costs()
        return EdgeLoad(
            input_rate=rate,
            delay_s=delay_s,
            output_bytes_per_s=rate * sum(second.output_bytes for second in seconds) * share,
            bandwidth_bytes_per_s=self._bandwidth,
            subscriptions=subscriptions,
            other_cpu_ratio=other_cpu_ratio,
            memory_ratio=memory_ratio,
            subscription_s=subscription_s,
            match_s=match_s,
            subscription_memory_ratio=subscription_memory_ratio,
            input_wait_s=sum(second.input_wait_s for second in seconds) * share,
            output_wait_s=sum(second.output_wait_s for second in seconds) * share,
        )

    def _second(self, now_s: float) -> _Second:
        if self._began_s is None:
            self._began_s = now_s
        at = int(now_s)
        seconds = self._seconds
        if not seconds or seconds[-1].at != at:
            self._forget(now_s)
            seconds.append(_Second(at))
        return seconds[-1]

    def _forget(self, now_s: float) -> None:
        oldest = self._oldest(now_s)
        while self._seconds and self._seconds[0].at < oldest:
            self._seconds.popleft()

    def _oldest(self, now_s: float) -> int:
        """The first second that is completely within the window."""
        return int(now_s - self._window_s) + 1
