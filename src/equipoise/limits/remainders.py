"""Tokens that lanes of a rate-limited topic had left at their end, for the trunk that grows by the same plan. Pure.

A lane ends with up to its depth of tokens. The trunk takes them over instead of beginning with empty added depth.

Always true: no tokens are created. The trunk takes at most the remainder of the lanes of one plan, once each, and at
most the depth that it gains by that plan: so the levels of all hubs sum up to the whole depth at most. The remainder of
lanes of an earlier plan is dropped, because their depth may have gone to another lane since.
"""

from __future__ import annotations

__all__ = ["Remainders"]


class Remainders:
    """Of one topic, at one hub."""

    __slots__ = ("_levels", "_version")

    def __init__(self) -> None:
        self._version = 0
        # Units of a bucket, by the hub of the lane.
        self._levels: dict[str, int] = {}

    def keep(self, version: int, hub: str, level: int) -> None:
        """The lane of a hub has ended under this version of the plan. Another report of that end changes nothing."""
        if version > self._version:
            self._version, self._levels = version, {}
        if version == self._version:
            self._levels.setdefault(hub, level)

    def take(self, version: int, gained: int) -> int:
        """Units for a trunk that gains this much depth by this version; clears the remainders."""
        levels, self._levels = self._levels, dict.fromkeys(self._levels, 0)
        return min(sum(levels.values()), gained) if version == self._version else 0
