"""Topics that the planner needs by name in a bounded view. Pure.

A view of ten million topics would name a few hundred of each hub: the heaviest, and those of interest. All others of a
hub are one remainder in its row (`rest_*` of `schema.HubFields`), which the planner counts and does not move.

The controller replies to a view with its interest, one line of JSON after the `+`; names are in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec

from equipoise.errors import ProtocolError

__all__ = ["NAMES_MAX", "Interest", "decode_interest", "encode_interest"]

# Entries of a plan and moves in flight are far fewer; a line with this many names is some 300 kB.
NAMES_MAX = 10_000


class Interest(msgspec.Struct, frozen=True, kw_only=True):
    """Which topics are named whatever their load."""

    # Topics that have an entry in the plan, or are in a move.
    names: frozenset[bytes] = frozenset()
    # Prefixes of topics for which a spec has a limit or a site.
    prefixes: tuple[bytes, ...] = ()
    # Hubs whose topics are all named.
    hubs: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.names or self.prefixes or self.hubs)


class _Line(msgspec.Struct, frozen=True):
    names: list[str] = []
    prefixes: list[str] = []
    hubs: list[str] = []


def encode_interest(interest: Interest) -> bytes:
    """Without the newline; empty without topics."""
    if interest.is_empty:
        return b""
    names = sorted(interest.names)[:NAMES_MAX]
    line = _Line(
        [b64encode(name).decode() for name in names],
        [b64encode(prefix).decode() for prefix in interest.prefixes],
        sorted(interest.hubs),
    )
    return msgspec.json.encode(line)


def decode_interest(line: bytes) -> Interest:
    """Raises ProtocolError."""
    if not line:
        return Interest()
    try:
        found = msgspec.json.decode(line, type=_Line)
        return Interest(
            names=frozenset(b64decode(name, validate=True) for name in found.names),
            prefixes=tuple(b64decode(prefix, validate=True) for prefix in found.prefixes),
            hubs=frozenset(found.hubs),
        )
    except (msgspec.DecodeError, ValueError) as problem:
        raise ProtocolError(f"not an interest in topics: {problem}") from problem
