"""Choose where the window is summed: in one driver thread or on executors. Pure.

On one machine the driver is faster while the records of a second take it a part of that second; above a measured rate
executors are, since each sums the hubs of its own task. A change takes one window, in which both get the records, so
that no view covers less than the one before it.

Always true: a rate has to be on the other side of the threshold for RATE_BATCHES batches in a row; the way back needs
half of that rate.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["SumsAt", "SumsChoice"]

# Ten seconds: longer than the burst of records after a pause of the pipeline.
RATE_BATCHES = 10
# The rate for the way back, relative to that for the way there.
_BACK_RATIO = 0.5


class SumsAt(StrEnum):
    """The setting, and the present place of sums."""

    AUTO = "auto"
    DRIVER = "driver"
    EXECUTORS = "executors"


class SumsChoice:
    """Owned by the query; changes through `observe`."""

    def __init__(self, wanted: SumsAt, *, records_per_s: float, over_s: float) -> None:
        self._is_fixed = wanted is not SumsAt.AUTO
        self._records_per_s = records_per_s
        self._over_s = over_s
        # Whose sums the view is made of.
        self.at: SumsAt = SumsAt.DRIVER if wanted is SumsAt.AUTO else wanted
        # The next place, once it has a whole window; None: no change is in progress.
        self._next: SumsAt | None = None
        self._fed_s = 0.0
        self._beyond = 0

    @property
    def has_samples(self) -> bool:
        """Whether the driver gets samples."""
        return SumsAt.DRIVER in (self.at, self._next)

    @property
    def has_state(self) -> bool:
        """Whether executors sum."""
        return SumsAt.EXECUTORS in (self.at, self._next)

    def observe(self, records: int, over_s: float) -> None:
        """Call after each batch: its records, and the time that they cover."""
        if self._is_fixed or over_s <= 0:
            return
        if self._next is not None:
            self._fed_s += over_s
            if self._fed_s > self._over_s:
                self.at, self._next, self._fed_s, self._beyond = self._next, None, 0.0, 0
            return
        rate = records / over_s
        is_driver = self.at is SumsAt.DRIVER
        is_beyond = rate > self._records_per_s if is_driver else rate < self._records_per_s * _BACK_RATIO
        self._beyond = self._beyond + 1 if is_beyond else 0
        if self._beyond >= RATE_BATCHES:
            self._next = SumsAt.EXECUTORS if is_driver else SumsAt.DRIVER
