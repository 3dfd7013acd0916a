"""Split limited topics: number of hubs and shares of the envelope (SRTM, IV and V-D).

Splitting a bucket never improves delays (Proposition 1 of that paper), so a limited topic has one home while one hub
can carry it. Otherwise it is split over the fewest hubs with enough room together, with the least share as large as
possible. Room is in messages of this topic, by each hub's scarcest resource. If replays of its arrivals have shown that
the latency limit needs more hubs (`Memory.fits`), it gets that many. If its load comes from its subscribers, it is left
to replication, which adds homes for subscribers: the bucket stays whole.

Between such changes shares follow the traffic: rates by mean rates, depths by the largest drains (`limits.adaptor`).
That moves no topic, so it neither counts as a move nor starts a waiting time. Shares do not assign publishers to homes:
publishers with a high rate would attract others. If a home becomes too full, the parts of publishers assigned to each
home change (`Entry.seats`), by the room of each, and shares follow.

Always true:
    a topic has no more homes than it has publishers, or tokens in its burst;
    shares set by an operator are not changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.limits.adaptor import AdaptorSettings, HomeWindow, SplitParts, adapted, in_parts, is_behind
from equipoise.limits.distribution import HubRoom, fewest_hubs, largest_minimum
from equipoise.limits.shares import PARTS, equal_parts
from equipoise.model import Entry, Mode, Reason, TopicSpec, Why
from equipoise.plan.draft import Draft, why
from equipoise.plan.latency import present_latency_s, specs_asking
from equipoise.plan.memory import HitCount, Memory, hit
from equipoise.plan.steps.high_load import is_severe
from equipoise.plan.steps.replication import is_clear, is_due
from equipoise.view.schema import LimitUse
from equipoise.view.view import View

__all__ = ["ADAPTOR", "divide", "has_fallen_behind"]

ADAPTOR = AdaptorSettings()
# A topic with a lower load ratio is no candidate, unless replays have shown that it needs several hubs.
_RATIO_MIN = 0.01
# A present home counts as this much roomier, as a part of the topic's rate: a change must be worth the handover.
_STAY = 0.1
# After a change of seats: until they may become even again. A hub that was slow may become slow again.
_RETURN_S = 120.0


def divide(draft: Draft) -> None:
    """Change the homes of limited topics that needed others for long enough; adapt shares to the traffic."""
    hits: dict[bytes, HitCount] = {}
    limited = specs_asking(draft.view, draft.specs, _is_limited)
    for topic in sorted(limited, key=lambda topic: (-draft.mean_ratio[topic], topic)):
        is_split = _is_split(draft, topic)
        if is_split:
            draft.divided.add(topic)
        if draft.mean_ratio[topic] < _RATIO_MIN and not is_split and not _is_fitted(draft, topic):
            continue
        _confirm(draft, topic, limited[topic])
        count, direction = _wanted(draft, topic, limited[topic])
        if direction:
            draft.divided.add(topic)
            _count(draft, topic, count, direction, hits)
        elif is_split:
            _reseat(draft, topic, hits)
        if is_split:
            _adapt(draft, topic)
    names, memory = draft.view.topic_index, draft.memory
    shares_s, seats_s = (
        {name: at for name, at in times.items() if name in names}
        for times in (memory.shares_s, memory.seats_s)
    )
    draft.remember(split_hits=hits, shares_s=shares_s, seats_s=seats_s)


def has_fallen_behind(view: View, memory: Memory) -> bool:
    """Whether the shares of a split topic should change at once, and may."""
    return any(
        len(homes) > 1
        and view.time_s - memory.shares_s.get(topic, -math.inf) > ADAPTOR.pause_s
        and is_behind([_window(use) for use in homes], ADAPTOR)
        for topic, uses in view.limited.items()
        # At other hubs messages wait for the tokens of these.
        if (homes := [use for use in uses.values() if use.drained > 0])
    )


def _is_limited(spec: TopicSpec) -> bool:
    """A durable topic cannot be split: one hub owns its log."""
    return spec.rate_per_s is not None and spec.durability is None


def _is_fitted(draft: Draft, topic: int) -> bool:
    """A replay has shown that its latency limit needs several hubs, however low its load on each."""
    fit = draft.memory.fits.get(draft.view.topics.names[topic])
    return fit is not None and fit.hubs > 1


def _is_split(draft: Draft, topic: int) -> bool:
    replicas = draft.predicted.several.get(topic)
    return replicas is not None and replicas.mode is Mode.ALL_SUBSCRIBERS


# --- how many hubs ----------------------------------------------------------------------------------------------------


def _wanted(draft: Draft, topic: int, spec: TopicSpec) -> tuple[int, int]:
    """The wanted number of hubs; and 1 if that is more than at present, -1 if it is less, 0 for no change."""
    homes, size = draft.homes_of(topic), float(draft.mean_ratio[topic])
    if not homes or (draft.predicted.several.get(topic) and not _is_split(draft, topic)):
        return len(homes), 0
    most = _most_homes(draft, topic, spec)
    fit = draft.memory.fits.get(draft.view.topics.names[topic])
    asked = min(most, fit.hubs) if fit is not None else 0
    rate = _rate(draft, topic)
    enough = fewest_hubs(rate, _rooms(draft, topic, _ratio_max(draft, homes)))
    is_tight = bool((draft.predicted.ratio[list(homes)] > draft.settings.high_ratio).any())
    wanted = max(asked, min(most, enough) if is_tight else 0)
    if wanted > len(homes) and (asked > len(homes) or not _is_for_readers(draft, topic, size)):
        return wanted, 1
    low = fewest_hubs(rate, _rooms(draft, topic, draft.settings.accept_ratio * draft.settings.shrink_ratio))
    fewer = max(asked, low, 1)
    return (fewer, -1) if fewer < len(homes) else (len(homes), 0)


def _confirm(draft: Draft, topic: int, spec: TopicSpec) -> None:
    """Compare a number of hubs from a replay with the measured latency of the topic."""
    name, homes = draft.view.topics.names[topic], draft.homes_of(topic)
    fit = draft.memory.fits.get(name)
    if fit is None or fit.is_confirmed or fit.hubs != len(homes) or spec.latency_ms is None:
        return
    changed_s = max(draft.memory.replicated_s.get(name, fit.at_s), fit.at_s)
    measured_s = present_latency_s(draft.view.topics, {topic: spec.quantile})[topic]
    if draft.now - changed_s < draft.settings.settle_s or np.isnan(measured_s):
        return
    most = min(_most_homes(draft, topic, spec), int(draft.eligible.sum()))
    judged = fit.judged(len(homes), most, holds=bool(measured_s <= spec.latency_ms / 1e3))
    draft.remember(fits={**draft.memory.fits, name: judged})
    note = f"{_shown(draft, topic)}: {judged.note or ('confirmed' if judged.is_confirmed else 'tried next')}"
    reason = why(Reason.SPLIT, note, measured_ms=1e3 * measured_s, hubs=len(homes), hubs_next=judged.hubs)
    draft.reasons.append(reason)


def _most_homes(draft: Draft, topic: int, spec: TopicSpec) -> int:
    publishers = math.floor(draft.view.topics.publishers[topic])
    burst = spec.envelope.burst if spec.envelope is not None else 1
    return int(max(1, min(draft.settings.homes_max, publishers, burst)))


def _is_for_readers(draft: Draft, topic: int, size: float) -> bool:
    """Its load comes from enough subscribers to spread: homes for subscribers leave the bucket whole."""
    topics, settings = draft.view.topics, draft.settings
    publishing = float(topics.publications_per_s[topic]) * settings.publication_cost_us
    work = publishing + float(topics.deliveries_per_s[topic]) * settings.delivery_cost_us
    homes = math.ceil(size / settings.home_ratio)
    part = publishing / work if work > 0 else 0.0
    return float(topics.subscribers[topic]) >= 2 * homes and part * size <= settings.home_ratio / 2


def _rate(draft: Draft, topic: int) -> float:
    return max(1e-9, float(draft.view.topics.publications_per_s[topic]))


def _ratio_max(draft: Draft, homes: Sequence[int]) -> float:
    """The bound of a hub's load ratio: higher if no further server is available."""
    settings = draft.settings
    is_severely_full = any(is_severe(draft, hub) for hub in homes)
    return settings.crowded_ratio if draft.is_crowded or is_severely_full else settings.accept_ratio


def _rooms(draft: Draft, topic: int, ratio_max: float) -> list[HubRoom]:
    """The messages per second that each eligible hub could carry; the topic's present load counts as removed."""
    predicted, homes = draft.predicted, draft.homes_of(topic)
    able = draft.takers(topic)
    able[list(homes)] = draft.eligible[list(homes)]
    replicas = predicted.several.get(topic)
    shares = dict.fromkeys(homes, 1.0) if replicas is None else predicted.shares_of(topic, replicas)
    rate, rooms = _rate(draft, topic), []
    for hub in np.flatnonzero(able).tolist():
        others = predicted.if_removed(topic, shares[hub])[hub] if hub in shares else predicted.ratio[hub]
        whole = float(predicted.topic_ratios(np.array([topic]), hub)[0])
        part = max(0.0, ratio_max - float(others)) / max(whole, 1e-9)
        rooms.append(HubRoom(draft.view.hubs.names[hub], rate * min(part, 1.0)))
    return rooms


def _count(draft: Draft, topic: int, count: int, direction: int, hits: dict[bytes, HitCount]) -> None:
    """Count one more view that needs other homes; change them once there is enough evidence."""
    name = draft.view.topics.names[topic]
    size = float(draft.mean_ratio[topic])
    clear = direction > 0 and is_clear(draft, topic, size)
    hits[name] = hit(draft.memory.split_hits.get(name), draft.view, step=direction, is_clear=clear)
    if is_due(draft, topic, hits[name].count) and _spread(draft, topic, count):
        del hits[name]
    else:
        draft.is_pressing |= direction > 0


def _spread(draft: Draft, topic: int, count: int) -> bool:
    """Set this number of homes, with shares by their room; whether anything was changed."""
    homes, rate = draft.homes_of(topic), _rate(draft, topic)
    index = draft.view.hub_index
    rooms = _rooms(draft, topic, _ratio_max(draft, homes))

    def roomiest(room: HubRoom) -> tuple[float, int]:
        hub = index[room.hub]
        return -(room.room_per_s + (_STAY * rate if hub in homes else 0.0)), hub

    chosen = sorted(rooms, key=roomiest)[:count]
    if not chosen:
        return False
    quotas = largest_minimum(rate, chosen)
    unplaced = max(0.0, rate - sum(quotas.values()))
    numbers = {"publications_per_s": rate, "homes": len(chosen), "unplaced_per_s": unplaced}
    if unplaced > 1e-6 * rate:
        # The best available; a server is requested as for any overload.
        note = f"{_shown(draft, topic)}: its hubs together lack capacity for it"
        draft.reasons.append(why(Reason.NO_ROOM, note, **numbers))
        draft.is_pressing = True
    made = sorted(
        (index[hub] for hub in quotas),
        key=lambda hub: (hub != homes[0], hub not in homes, -_at(draft, quotas, hub), hub),
    )
    if tuple(made) == tuple(homes):
        return False
    explained = why(Reason.SPLIT, f"{len(homes)} to {len(made)} hubs", **numbers)
    if len(made) == 1:
        draft.move(topic, made[0], explained)
    else:
        shares = in_parts([max(1e-9, _at(draft, quotas, hub)) for hub in made], ADAPTOR.floor)
        draft.replicate(topic, made, Mode.ALL_SUBSCRIBERS, explained, shares=shares)
        _deal_by_order(draft, topic, explained)
    name = draft.view.topics.names[topic]
    draft.remember(replicated_s={**draft.memory.replicated_s, name: draft.now})
    return True


def _deal_by_order(draft: Draft, topic: int, explained: Why) -> None:
    """Set the number of the latest order of publishers in the entry, if there is one."""
    name = draft.view.topics.names[topic]
    was, fit = draft.plan.entries.get(name), draft.memory.fits.get(name)
    order = max(0 if was is None else was.order, 0 if fit is None else fit.order)
    if order:
        draft.changes.put(msgspec.structs.replace(draft.changes.entries[name], order=order), explained)


def _at(draft: Draft, quotas: dict[str, float], hub: int) -> float:
    return quotas[draft.view.hubs.names[hub]]


def _shown(draft: Draft, topic: int) -> str:
    return draft.view.topics.names[topic].decode("utf-8", "backslashreplace")


# --- seats by room ----------------------------------------------------------------------------------------------------


def _reseat(draft: Draft, topic: int, hits: dict[bytes, HitCount]) -> None:
    """Move publishers from a home that is too full to the others; make seats even once all have room again."""
    name = draft.view.topics.names[topic]
    entry = draft.changes.entries.get(name)
    if entry is None or _is_given(entry) or not _is_seen(draft, topic, entry):
        return
    wanted = _seats_wanted(draft, topic, entry)
    full = _full_homes(draft, entry)
    if wanted is None:
        return
    pairs = list(zip(entry.homes, entry.seat_parts, wanted, strict=True))
    is_relief = any(home in full and new < old * (1 - ADAPTOR.tolerance) for home, old, new in pairs)
    is_return = not full and any(new > old * (1 + ADAPTOR.tolerance) for _, old, new in pairs)
    if not is_relief and not is_return:
        return
    is_urgent = any(is_severe(draft, draft.view.hub_index[home]) for home in full)
    step = 1 if is_relief else -1
    hits[name] = hit(draft.memory.split_hits.get(name), draft.view, step=step, is_clear=is_urgent)
    wait_s = draft.settings.settle_s if is_relief else _RETURN_S
    if draft.now - draft.memory.seats_s.get(name, -math.inf) < wait_s:
        return
    draft.is_pressing |= is_relief
    if abs(hits[name].count) < (draft.settings.hits if is_relief else draft.settings.merge_hits):
        return
    del hits[name]
    moved = sum(abs(new - old) for _, old, new in pairs) / 2 / PARTS
    note = f"off {', '.join(sorted(full))}" if is_relief else "evenly again"
    explained = why(Reason.SEATS, note, moved_ratio=moved)
    draft.changes.put(msgspec.structs.replace(entry, seats=wanted), explained)
    draft.remember(seats_s={**draft.memory.seats_s, name: draft.now})


def _full_homes(draft: Draft, entry: Entry) -> list[str]:
    index, ratio = draft.view.hub_index, draft.predicted.ratio
    return [home for home in entry.homes if ratio[index[home]] > draft.settings.high_ratio]


def _seats_wanted(draft: Draft, topic: int, entry: Entry) -> tuple[int, ...] | None:
    """Parts with the least as large as room allows; None if no home has room."""
    rooms = [
        room
        for room in _rooms(draft, topic, _ratio_max(draft, draft.homes_of(topic)))
        if room.hub in entry.homes
    ]
    measured = {home: float(draft.predicted.ratio[draft.view.hub_index[home]]) for home in entry.homes}
    present = dict(zip(entry.homes, entry.seat_parts, strict=True))
    rate, high = _rate(draft, topic), draft.settings.high_ratio
    # Below half of the present load of a home that is too full the prediction is not used: lag falls with load only
    # if load causes it.
    held = [
        room._replace(capacity_per_s=min(room.capacity_per_s, rate * present[room.hub] / PARTS / 2))
        if measured[room.hub] > high
        else room
        for room in rooms
    ]
    quotas = largest_minimum(rate, held)
    weights = [quotas.get(home, 0.0) for home in entry.homes]
    return in_parts(weights, ADAPTOR.floor) if sum(weights) > 0 else None


# --- shares by traffic ------------------------------------------------------------------------------------------------


def _window(use: LimitUse) -> HomeWindow:
    """The window of the view, as the adaptor's."""
    return HomeWindow(use.publications_per_s, use.publications_per_s, use.drained, use.waiting)


def _adapt(draft: Draft, topic: int) -> None:
    name = draft.view.topics.names[topic]
    entry, uses = draft.changes.entries.get(name), draft.view.limited.get(name)
    if entry is None or uses is None or not _may_adapt(draft, topic, entry):
        return
    windows = [_window(uses.get(home, LimitUse(0.0, 0.0, 0.0))) for home in entry.homes]
    before = SplitParts(
        entry.shares or equal_parts(len(entry.homes)),
        entry.depths or entry.shares or equal_parts(len(entry.homes)),
    )
    draft.is_pressing |= is_behind(windows, ADAPTOR)
    after = adapted(before, windows, draft.view.window_s, ADAPTOR)
    if after is None:
        return
    off = max(
        abs(new - old)
        for new, old in zip((*after.rates, *after.depths), (*before.rates, *before.depths), strict=True)
    )
    waiting = sum(window.waiting for window in windows)
    explained = why(Reason.SHARES, "", changed_ratio=off / PARTS, waiting=waiting)
    kept = msgspec.structs.replace(entry, shares=after.rates, depths=after.depths, seats=entry.seat_parts)
    draft.changes.put(kept, explained)
    draft.remember(shares_s={**draft.memory.shares_s, name: draft.now})


def _may_adapt(draft: Draft, topic: int, entry: Entry) -> bool:
    """The view shows the present homes under the present shares, and no operator has set these."""
    is_rested = draft.now - draft.memory.shares_s.get(entry.topic, -math.inf) > ADAPTOR.pause_s
    return not _is_given(entry) and is_rested and _is_seen(draft, topic, entry)


def _is_given(entry: Entry) -> bool:
    """An operator has set the shares."""
    return entry.is_pinned and bool(entry.shares) and not entry.depths


def _is_seen(draft: Draft, topic: int, entry: Entry) -> bool:
    """The view shows the homes of the entry."""
    name, memory = entry.topic, draft.memory
    moved_s = max(memory.replicated_s.get(name, -math.inf), memory.moved_s.get(name, -math.inf))
    is_settled = draft.now - moved_s >= draft.settings.settle_s
    was = draft.plan.entries.get(name)
    return (
        is_settled
        and was is not None
        and was.place == entry.place
        and memory.arbiter.is_free(name, "")
        and set(draft.homes_of(topic)) == {draft.view.hub_index.get(home) for home in entry.homes}
    )
