"""Capabilities and limits that hubs announce in the handshake.

    EQ.L.CAPABILITIES from incarnation [name | limit=number …]   +name limit=number …, or an error
    EQ.L.HELLO 1 from incarnation generation to incarnation [control]
                                                                 :bytes executed so far, or an error

A hub that dials another sends both commands in one write; for a control link, only the second one. A hub of a release
before named capabilities neither sends nor supports the first one: its capabilities follow from the number that it
announces in the store (`VERBS`). Unknown names are ignored, so a later release may add some. A frame that needs a
capability is sent only to hubs that have announced it (`OutLink.send`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from equipoise.hub.cluster.link.capability import CAPABILITIES, CONTENT, PROBE
from equipoise.hub.cluster.link.codec import parse_number
from equipoise.hub.cluster.link.frames import Life
from equipoise.hub.settings import Limits
from equipoise.resp.replies import spell

__all__ = ["CONTROL_WORD", "PROTOCOL", "VERBS", "Announcement", "capabilities_of_verbs", "spell_greeting"]

PROTOCOL = b"1"
# Last word of HELLO for the connection of a control link.
CONTROL_WORD = b"control"
# Announced in the store to hubs of earlier releases, which decide by it whether to probe. Constant.
VERBS = 2


class Announcement(NamedTuple):
    """The capabilities and limits that a hub sends in the handshake."""

    capabilities: frozenset[str]
    # By name, settings that should be equal at all hubs of a cluster.
    limits: dict[str, int]

    @classmethod
    def of(cls, limits: Limits, *, has_content: bool = True) -> Announcement:
        agreed = {
            "payload_bytes_max": limits.payload_bytes_max,
            "topic_bytes_max": limits.topic_bytes_max,
        }
        return cls(CAPABILITIES if has_content else CAPABILITIES - {CONTENT}, agreed)

    @classmethod
    def parse(cls, words: Iterable[bytes]) -> Announcement:
        """Decode an announcement; words that cannot be parsed (of a later release) are ignored like unknown names."""
        names: set[str] = set()
        limits: dict[str, int] = {}
        for word in words:
            name, mark, value = word.decode("utf-8", "replace").partition("=")
            if not mark:
                names.add(name)
            elif value.isascii() and value.isdigit():
                limits[name] = parse_number(value.encode())
        return cls(frozenset(names), limits)

    def words(self) -> list[bytes]:
        limits = [f"{name}={value}" for name, value in sorted(self.limits.items())]
        return [word.encode() for word in (*sorted(self.capabilities), *limits)]

    def differences(self, other: Announcement, name: str, other_name: str) -> str:
        """The limits that both announce and that differ, with their values; empty if there are none."""
        both = sorted(self.limits.keys() & other.limits.keys())
        return ", ".join(
            f"limits.{limit} is {self.limits[limit]} at {name} and {other.limits[limit]} at {other_name}"
            for limit in both
            if self.limits[limit] != other.limits[limit]
        )


def capabilities_of_verbs(verbs: int) -> frozenset[str]:
    """The capabilities of a hub that announces no names, by its number in the store."""
    return frozenset({PROBE}) if verbs >= VERBS else frozenset()


def spell_greeting(
    own: Life, announcement: Announcement | None, *, generation: int, peer: Life, is_control: bool = False
) -> bytes:
    """Both commands; without an announcement only the second, as sent by earlier releases."""
    name, incarnation = own[0].encode(), b"%d" % own[1]
    hello = (
        b"EQ.L.HELLO",
        PROTOCOL,
        name,
        incarnation,
        b"%d" % generation,
        peer[0].encode(),
        b"%d" % peer[1],
        *((CONTROL_WORD,) if is_control else ()),
    )
    if announcement is None:
        return spell(hello)
    return spell((b"EQ.L.CAPABILITIES", name, incarnation, *announcement.words())) + spell(hello)
