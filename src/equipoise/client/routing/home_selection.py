"""Decide over which links a topic with lanes is subscribed to, step by step.

Every home brings the streams that it numbers, so that no hub has to send everything. One link, the anchor, brings
whatever else there is: a lane that begins, the trunk while it is at no home that can be reached.

    whole     one link brings everything
    joining   it still does; the homes bring their own, too
    spread    the homes bring their own, the anchor what they do not

Each step is taken when the one before has come about. To go from one set of homes to another, and whenever a link of
them is lost, is to be whole again first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.wire.link_subscriptions import NameSeat

if TYPE_CHECKING:
    from equipoise.client.routing.channel import TopicChannel
    from equipoise.client.wire.link import Link


class Place(NamedTuple):
    """A link to subscribe over: to everything, or to some streams of the topic."""

    link: Link
    is_own: bool = False
    # Of some: all but these; None: those that the hub numbers.
    elsewhere: frozenset[bytes] | None = None


def next_places(channel: TopicChannel, anchor: Link, homes: list[Link]) -> list[Place] | None:
    """Where to subscribe next on the way to being spread over these homes; None: nowhere else, or not yet.

    `anchor` is where the topic is to be whole before it is spread.
    """
    merge = channel.merge
    wanted = [seat for seat in merge.wanted if isinstance(seat, NameSeat)]
    whole = [seat for seat in wanted if not seat.is_own]
    own = [seat for seat in wanted if seat.is_own and seat.elsewhere is None]
    if merge.is_changing:
        return None
    if not whole:
        rest = [seat for seat in wanted if seat.elsewhere is not None]
        is_right = {seat.names for seat in own} == {home.names for home in homes} - {
            seat.names for seat in rest
        }
        return None if is_right else [Place(anchor)]
    others = [home for home in homes if home.names is not whole[0].names]
    link = next((link for link in (anchor, *homes) if link.names is whole[0].names), None)
    if link is None:
        # Whole at a link that is neither: it is brought to the anchor first.
        return [Place(anchor)]
    if {seat.names for seat in own} != {home.names for home in others}:
        return [Place(link), *(Place(home, is_own=True) for home in others)]
    if not others or not merge.is_caught_up(own):
        return None
    elsewhere = frozenset(merge.brought_by(own))
    return [*(Place(home, is_own=True) for home in others), Place(link, is_own=True, elsewhere=elsewhere)]


def is_spread(channel: TopicChannel) -> bool:
    """Whether nothing is left to be done."""
    return not channel.merge.is_changing and all(seat.is_own for seat in channel.merge.wanted)
