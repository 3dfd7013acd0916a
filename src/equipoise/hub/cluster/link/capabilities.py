"""Capabilities and limits that hubs announce in the handshake.

    EQ.L.CAPABILITIES from incarnation [name | limit=number …]   +name limit=number …, or an error
    EQ.L.HELLO 1 from incarnation generation to incarnation [control]
                                                                 :bytes executed so far, or an error

A hub that dials another sends both commands in one write; for a control link, the second one alone. A hub of a release
before capabilities had names neither sends nor knows the first one: what it understands follows from the number that it
announces in the store (`VERBS`). Names that a hub does not know are ignored, so a later release may add some. A frame
that needs a capability is sent only to hubs that announced it (`OutLink.send`).
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
# Behind HELLO: the connection is that of a control link.
CONTROL_WORD = b"control"
# What a hub announces in the store to hubs of earlier releases, which decide by it whether to probe. It stays.
VERBS = 2


class Announcement(NamedTuple):
    """What one hub tells another of itself when they greet."""

    capabilities: frozenset[str]
    # Settings that hubs of one system need the same, by name.
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
        """Words that cannot be read are from a later release, and ignored like names that are not known."""
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
    """What a hub that announces no names understands, by its number in the store."""
    return frozenset({PROBE}) if verbs >= VERBS else frozenset()


def spell_greeting(
    own: Life, announcement: Announcement | None, *, generation: int, peer: Life, is_control: bool = False
) -> bytes:
    """Both commands; without an announcement the second alone, as the release before sends it."""
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
