"""Accept or reject the links that other hubs open, and apply their announcements.

A link is accepted if both ends name the live incarnations of the two hubs, and if it is not older than the link in use.
A later generation voids unreceived frames of the previous one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.capabilities import Announcement
from equipoise.hub.cluster.link.incoming import InLink, LinkId

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.link.frame import Life

__all__ = ["PeerGreeting", "death_notice"]

log = logging.getLogger("equipoise.hub")


def death_notice(life: Life) -> str:
    """The error for an incarnation that this hub has declared dead."""
    return f"DEAD incarnation {life[1]} of {life[0]} is declared dead: start a new one"


class PeerGreeting:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def open_link(self, link: LinkId, *, to_incarnation: int, is_control: bool = False) -> InLink | str:
        """A hub opens a link to this hub, or resumes one: the link, or the reason for its rejection."""
        cluster = self._cluster
        name, own = cluster.name, cluster.core.incarnation
        if to_incarnation != own:
            return f"STALE this is incarnation {own} of {name}, not {to_incarnation}"
        if cluster.router.is_dead(link.hub, link.incarnation):
            return death_notice((link.hub, link.incarnation))
        out = cluster.out.get(link.hub)
        if out is None or out.incarnation != link.incarnation:
            return f"UNKNOWN {name} does not know incarnation {link.incarnation} of {link.hub}: try again"
        incoming = cluster.control.incoming if is_control else cluster.incoming
        known = incoming.get(link.hub)
        if known is not None and known.id == link:
            return (
                f"UNKNOWN {name} is executing earlier frames of this link: try again"
                if known.is_busy
                else known
            )
        if known is not None and known.id > link:
            return f"STALE {link.hub} has opened a later link than {link.incarnation}.{link.generation}"
        if link.generation > 1 and not is_control:
            cluster.renewed(link.hub, out)
        incoming[link.hub] = InLink(link)
        return incoming[link.hub]

    def announced(self, life: Life, announcement: Announcement) -> None:
        """A hub has announced its capabilities, and its limits, which should be the same here."""
        cluster = self._cluster
        link = cluster.out.get(life[0])
        if link is None or link.incarnation != life[1]:
            return
        link.capabilities, before = announcement.capabilities, link.differences
        cluster.counts.sync(link)
        cluster.failover.introduce(link)
        cluster.failover.greeted(link)
        cluster.trees.greeted(link.hub)
        limits = Announcement.of(cluster.core.limits)
        link.differences = limits.differences(announcement, cluster.name, link.hub)
        if link.differences and link.differences != before:
            log.warning("hubs of one cluster need the same limits: %s", link.differences)
