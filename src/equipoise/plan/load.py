"""Compute load from measurements: needs of topics, capacities and load ratios of hubs.

`telemetry.load` defines a hub's load ratio; if a hub was in distress below its stated bandwidth, the rate at that time
is its maximum.

The need of a topic is the same at every hub: bytes, and work, which is the CPU time of its messages by the constants
of the settings. A hub's price is the CPU time of a unit of work there, from its profile, else from this view, else as
at
the other hubs. Replies to publications take bytes, too, and move with the topic; their size is estimated from the view.
All further bytes and CPU time of a hub stay with the hub; so does the remainder, the topics that a bounded view does
not list.

The load of a topic on a hub with rising load is extrapolated from the middle of the window to the end of the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Member
from equipoise.plan.memory import (
    CPU_RATIO_LEARNT_MIN,
    PRICE_MAX,
    PRICE_MIN,
    WORK_LEARNT_MIN,
    HubNoise,
    HubProfile,
    HubSample,
    Memory,
    updated_profile,
)
from equipoise.plan.settings import PlannerSettings
from equipoise.telemetry.load import lag_ratio, load_ratio
from equipoise.view.view import View

__all__ = [
    "Capacities",
    "TopicNeeds",
    "capacities",
    "eligible_hubs",
    "hub_loads",
    "learn_all",
    "needs",
    "sums",
]

Floats = NDArray[np.float64]

# The flow ratio below which a hub's lag is not caused by its topics.
_LAG_FLOW_MIN = 0.25
# Upper bound of the bytes of one reply to a publication, telemetry of its topic included.
_ANSWER_BYTES_MAX = 200.0
# A hub with less than this part of the publications is not used to estimate the size of replies.
_ANSWERING_PART_MIN = 0.02
# A falling topic is not extrapolated below this ratio.
_FALL_MIN = 0.5


@dataclass(frozen=True, eq=False)
class TopicNeeds:
    """The needs of each topic in all, and the part of each row of `view.carried`."""

    bytes_per_s: Floats
    work: Floats
    carried_bytes: Floats
    carried_work: Floats
    # The first two as the window's mean, and at present: at most the largest second.
    mean_bytes: Floats
    mean_work: Floats
    present_bytes: Floats
    present_work: Floats


@dataclass(frozen=True, eq=False)
class Capacities:
    """The capacity of each hub, and its load beside its topics."""

    # Infinite if no hub's limit is known.
    bytes_full: Floats
    # CPU ratio per unit of work.
    price: Floats
    base_bytes: Floats
    base_cpu: Floats
    lag_ratio: Floats
    # The load ratio as measured, without extrapolation.
    measured: Floats
    # Its rise within the window, and whether that is more than noise.
    rise: Floats
    is_rising: NDArray[np.bool_]
    cpu_full: float
    # Bytes of the reply to one publication.
    answer_bytes: float = 0.0

    def flow_ratio(self, bytes_per_s: Floats, work: Floats) -> Floats:
        """Bandwidth and CPU ratio, given the sums of the topics on each hub."""
        bandwidth = (self.base_bytes + bytes_per_s) / self.bytes_full
        cpu = (self.base_cpu + self.price * work) / self.cpu_full
        return np.maximum(bandwidth, cpu)

    def lag_after(self, flow: Floats, flow_measured: Floats) -> Floats:
        """The lag ratio at bandwidth and CPU of `flow` instead of the measured ones: it is proportional to them.

        The lag of a hub with little load has other causes, and moving topics away hardly helps.
        """
        change: Floats = (flow - flow_measured) / np.maximum(flow_measured, _LAG_FLOW_MIN)
        lag: Floats = self.lag_ratio * np.maximum(0.0, 1.0 + change)
        return lag

    def topic_ratio(self, bytes_per_s: Floats, work: Floats, hub: int) -> Floats:
        """The load ratio of each of these topics on one hub."""
        bandwidth: Floats = bytes_per_s / self.bytes_full[hub]
        cpu: Floats = work * (self.price[hub] / self.cpu_full)
        return np.maximum(bandwidth, cpu)


def learn_all(
    view: View, profiles: Mapping[str, HubProfile], settings: PlannerSettings
) -> dict[str, HubProfile]:
    """The profiles with this view added; those of removed hubs are dropped."""
    work = _carried_work(view, settings)
    hubs = view.hubs
    made: dict[str, HubProfile] = {}
    for index, name in enumerate(hubs.names):
        sample = HubSample(
            float(work[index]),
            float(hubs.cpu_ratio[index]),
            float(hubs.out_bytes_per_s[index]),
            float(hubs.loop_lag_s[index]),
        )
        made[name] = updated_profile(profiles.get(name, HubProfile()), sample, settings)
    return made


def capacities(
    view: View,
    profiles: Mapping[str, HubProfile],
    noises: Mapping[str, HubNoise],
    settings: PlannerSettings,
) -> Capacities:
    hubs = view.hubs
    known = [profiles.get(name, HubProfile()) for name in hubs.names]
    bytes_full = _bytes_full(view, profiles, settings)
    work = _carried_work(view, settings)
    price = _prices(known, work, hubs.cpu_ratio, settings)
    deliveries_full = np.where(hubs.deliveries_per_s_max > 0, hubs.deliveries_per_s_max, np.inf)
    if settings.delivery_cost_us > 0:
        # A hub whose deliveries are at capacity is full, whatever CPU is left: that is their price there.
        work_full = deliveries_full * (settings.delivery_cost_us * 1e-6)
        price = np.maximum(price, settings.cpu_full_ratio / work_full)
    at, share = view.carried.topic, view.carried.share
    sent = sums(view.carried.hub, view.topics.out_bytes_per_s[at] * share, hubs.count)
    published = sums(view.carried.hub, view.topics.publications_per_s[at] * share, hubs.count)
    # Bytes of topics that the view does not list stay with the hub, but are no replies to publications.
    published = published + hubs.rest_publications_per_s
    beside = np.maximum(0.0, hubs.out_bytes_per_s - sent - hubs.rest_out_bytes_per_s)
    answer_bytes = _answer_bytes(beside, published)
    rest_bytes = hubs.rest_out_bytes_per_s + answer_bytes * hubs.rest_publications_per_s
    rest_cpu = price * _rest_work(view, settings)
    trend = np.maximum(hubs.out_bytes_trend / bytes_full, hubs.cpu_trend / settings.cpu_full_ratio)
    rise = trend * view.window_s
    usual = np.array([noises.get(name, HubNoise()).rise_deviation for name in hubs.names], np.float64)
    is_rising = rise >= np.maximum(settings.trend_ratio_min, settings.clear_deviations * usual)
    lag = [lag_ratio(lag_s, settings.loop_lag_full_s) for lag_s in hubs.loop_lag_s.tolist()]
    return Capacities(
        bytes_full=bytes_full,
        price=price,
        base_bytes=np.maximum(0.0, beside - answer_bytes * published) + rest_bytes,
        base_cpu=np.maximum(0.0, hubs.cpu_ratio - price * work) + rest_cpu,
        answer_bytes=answer_bytes,
        lag_ratio=np.array(lag, np.float64),
        measured=hub_loads(view, profiles, settings),
        rise=rise,
        is_rising=is_rising if settings.trend_horizon_s > 0 else np.zeros(hubs.count, np.bool_),
        cpu_full=settings.cpu_full_ratio,
    )


def hub_loads(view: View, profiles: Mapping[str, HubProfile], settings: PlannerSettings) -> Floats:
    """The load of each hub as displayed, without extrapolation."""
    hubs = view.hubs
    measured = zip(
        hubs.cpu_ratio.tolist(),
        hubs.loop_lag_s.tolist(),
        hubs.out_bytes_per_s.tolist(),
        _bytes_full(view, profiles, settings).tolist(),
        hubs.deliveries_per_s.tolist(),
        hubs.deliveries_per_s_max.tolist(),
        strict=True,
    )
    found = [
        load_ratio(
            cpu_ratio=cpu,
            loop_lag_s=lag_s,
            out_bytes_per_s=out,
            out_bytes_per_s_max=out_max,
            deliveries_per_s=deliveries,
            deliveries_per_s_max=deliveries_max,
            cpu_full_ratio=settings.cpu_full_ratio,
            loop_lag_full_s=settings.loop_lag_full_s,
        )
        for cpu, lag_s, out, out_max, deliveries, deliveries_max in measured
    ]
    return np.array(found, np.float64)


def _bytes_full(view: View, profiles: Mapping[str, HubProfile], settings: PlannerSettings) -> Floats:
    """The maximum outgoing rate of each hub: as stated, or less after distress below that; infinite if unknown for all
    hubs."""
    hubs = view.hubs
    met = [profiles.get(name, HubProfile()).out_bytes_full(settings) for name in hubs.names]
    stated = np.where(hubs.out_bytes_per_s_max > 0, hubs.out_bytes_per_s_max, np.inf)
    return _as_ordinary(np.minimum(stated, np.array(met, np.float64)))


def _as_ordinary(full: Floats) -> Floats:
    """Replaces unknown limits by the median of the known ones.

    A hub that has just joined has no profile yet: with an infinite limit it would receive every topic.
    """
    is_known = np.isfinite(full)
    return np.where(is_known, full, np.median(full[is_known])) if is_known.any() else full


def _answer_bytes(beside: Floats, published: Floats) -> float:
    """Bytes of one reply: the median over the hubs with enough publications."""
    redirects = published > _ANSWERING_PART_MIN * published.sum()
    if not redirects.any():
        return 0.0
    return float(min(_ANSWER_BYTES_MAX, np.median(beside[redirects] / published[redirects])))


def needs(view: View, capacities: Capacities, settings: PlannerSettings) -> TopicNeeds:
    """The needs of topics; extrapolated on hubs with rising load."""
    topics, is_rising = view.topics, capacities.is_rising
    growth = np.ones(topics.count)
    if is_rising.any():
        on_rising = np.unique(view.carried.topic[is_rising[view.carried.hub]])
        growth[on_rising] = _growth(view, on_rising, settings)
    shown = np.maximum(1.0, topics.out_bytes_per_s_max / np.maximum(topics.out_bytes_per_s, 1e-9))
    mean = topics.out_bytes_per_s + capacities.answer_bytes * topics.publications_per_s
    work = _work(view, settings)
    present = np.minimum(growth, shown)
    at, share = view.carried.topic, view.carried.share
    return TopicNeeds(
        bytes_per_s=mean * growth,
        work=work * growth,
        carried_bytes=(mean * growth)[at] * share,
        carried_work=(work * growth)[at] * share,
        mean_bytes=mean,
        mean_work=work,
        present_bytes=mean * present,
        present_work=work * present,
    )


def _growth(view: View, which: NDArray[np.int64], settings: PlannerSettings) -> Floats:
    """The extrapolated load of each topic, as a multiple of its mean."""
    topics = view.topics
    mean = np.maximum(topics.out_bytes_per_s[which], 1e-9)
    trend = topics.out_bytes_trend[which]
    present = mean + trend * view.window_s / 2
    largest = topics.out_bytes_per_s_max[which]
    present = np.where(largest > 0, np.minimum(present, largest), present)
    ahead = np.minimum(
        present + trend * settings.trend_horizon_s,
        settings.trend_growth_max * np.maximum(present, largest),
    )
    return np.maximum(ahead / mean, _FALL_MIN)


def _work(view: View, settings: PlannerSettings) -> Floats:
    topics = view.topics
    micros = (
        topics.deliveries_per_s * settings.delivery_cost_us
        + topics.publications_per_s * settings.publication_cost_us
    )
    return micros * 1e-6


def _carried_work(view: View, settings: PlannerSettings) -> Floats:
    """Of each hub, including the topics that the view does not list."""
    carried = _work(view, settings)[view.carried.topic] * view.carried.share
    return sums(view.carried.hub, carried, view.hubs.count) + _rest_work(view, settings)


def _rest_work(view: View, settings: PlannerSettings) -> Floats:
    hubs = view.hubs
    micros = (
        hubs.rest_deliveries_per_s * settings.delivery_cost_us
        + hubs.rest_publications_per_s * settings.publication_cost_us
    )
    return np.asarray(micros * 1e-6)


def sums(index: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """The sum of the values of each index."""
    return np.bincount(index, values, minlength=count).astype(np.float64)


def _prices(profiles: list[HubProfile], work: Floats, cpu_ratio: Floats, settings: PlannerSettings) -> Floats:
    learnt_prices = [profile.price(settings) for profile in profiles]
    prices = np.array([np.nan if price is None else price for price in learnt_prices], np.float64)
    is_usable = np.isnan(prices) & (cpu_ratio >= CPU_RATIO_LEARNT_MIN) & (work >= WORK_LEARNT_MIN)
    prices[is_usable] = np.clip(cpu_ratio[is_usable] / work[is_usable], PRICE_MIN, PRICE_MAX)
    known = prices[~np.isnan(prices)]
    prices[np.isnan(prices)] = np.median(known) if len(known) else 1.0
    return prices


def eligible_hubs(
    view: View, members: Mapping[str, Member], memory: Memory, settings: PlannerSettings
) -> NDArray[np.bool_]:
    """The hubs that may receive topics: live members with a weight, not drained or released, with memory left."""
    hubs = view.hubs
    weights = [members[name].weight if name in members else 0 for name in hubs.names]
    limit = np.where(hubs.memory_bytes_max > 0, hubs.memory_bytes_max, np.inf)
    has_memory = hubs.memory_bytes <= settings.memory_full_ratio * limit
    stays = np.array([name != memory.releasing for name in hubs.names], np.bool_)
    is_eligible: NDArray[np.bool_] = (
        stays & hubs.is_alive & ~hubs.is_draining & (np.array(weights, np.int64) > 0) & has_memory
    )
    return is_eligible
