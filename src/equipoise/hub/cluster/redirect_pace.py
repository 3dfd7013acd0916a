"""The rate at which a hub redirects the subscribers of topics that have moved.

Each redirect costs the client half a millisecond and two hubs a tenth, at the same moment at which the hubs hand the
topics over. On a machine without an idle core all messages wait for that work. So the rate begins low and doubles every
quarter of a second, up to the setting: subscribers of a few topics follow within a second, and ten thousand subscribers
of one topic take one second longer than at the full rate.

Always true: the rate is at most the setting; after `REST_S` without a turn it begins again.
"""

from __future__ import annotations

__all__ = ["FIRST_PER_S", "LATE_RATIO", "RedirectPace"]

# Redirects per second at the beginning.
FIRST_PER_S = 50.0
DOUBLING_S = 0.25
# Seconds without redirects after which the rate begins again.
REST_S = 1.0
# The part of the rate that is used in a turn that begins late.
LATE_RATIO = 0.25


class RedirectPace:
    """Owned by the redirects of one hub."""

    def __init__(self, per_s_max: float) -> None:
        self._per_s_max = per_s_max
        self._per_s = 0.0
        # Time of the last turn.
        self._at: float | None = None

    def per_s(self, now: float, *, is_late: bool) -> float:
        """The rate of a turn that begins now."""
        if self._at is None or now - self._at > REST_S:
            self._per_s = FIRST_PER_S
        else:
            self._per_s *= 2.0 ** ((now - self._at) / DOUBLING_S)
        self._per_s = min(self._per_s, self._per_s_max)
        self._at = now
        return self._per_s * (LATE_RATIO if is_late else 1.0)
