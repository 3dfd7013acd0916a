"""Decide over which links a topic with lanes is subscribed to, stage by stage.

Every home brings the streams that it numbers, so that no hub has to send everything. One link, the fallback, brings
what else there is: a lane that begins, the trunk while it is at no home that can be reached.

    whole     one link brings everything
    joining   it still does; the homes bring their own, too
    spread    the homes bring their own, the fallback what they do not

Each stage begins when the one before has been reached. To go from one set of homes to another, and whenever a link of
them is lost, is to be whole again first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.wire.link_subscriptions import LinkSubscription

if TYPE_CHECKING:
    from equipoise.client.routing.channel import TopicChannel
    from equipoise.client.wire.link import Link


class SubscribeTarget(NamedTuple):
    """A link to subscribe over: to everything, or to some streams of the topic."""

    link: Link
    is_own: bool = False
    # Of some: all but these; None: those that the hub numbers.
    elsewhere: frozenset[bytes] | None = None


def next_targets(channel: TopicChannel, fallback: Link, homes: list[Link]) -> list[SubscribeTarget] | None:
    """Where to subscribe next on the way to being spread over these homes; None: nowhere else, or not yet.

    `fallback` is where the topic is to be whole before it is spread.
    """
    merge = channel.merge
    wanted = [source for source in merge.wanted if isinstance(source, LinkSubscription)]
    whole = [source for source in wanted if not source.is_own]
    own = [source for source in wanted if source.is_own and source.elsewhere is None]
    if merge.is_changing:
        return None
    if not whole:
        rest = {source.table for source in wanted if source.elsewhere is not None}
        is_right = {source.table for source in own} == {home.subscriptions for home in homes} - rest
        return None if is_right else [SubscribeTarget(fallback)]
    others = [home for home in homes if home.subscriptions is not whole[0].table]
    link = next((link for link in (fallback, *homes) if link.subscriptions is whole[0].table), None)
    if link is None:
        # Whole at a link that is neither: it is brought to the fallback first.
        return [SubscribeTarget(fallback)]
    spread = [SubscribeTarget(home, is_own=True) for home in others]
    if {source.table for source in own} != {home.subscriptions for home in others}:
        return [SubscribeTarget(link), *spread]
    if not others or not merge.is_caught_up(own):
        return None
    elsewhere = frozenset(merge.brought_by(set(own)))
    return [*spread, SubscribeTarget(link, is_own=True, elsewhere=elsewhere)]


def is_spread(channel: TopicChannel) -> bool:
    """Whether nothing is left to be done."""
    return not channel.merge.is_changing and all(source.is_own for source in channel.merge.wanted)
