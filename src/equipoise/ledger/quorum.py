"""The arithmetic of a ledger's quorums: E bookies, each entry on W of them, acknowledged by A of those."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from equipoise.errors import MisuseError

__all__ = ["Quorum", "parse_quorum"]

# More than any cluster of bookies of a hub; a bound for typed values.
_ENSEMBLE_MAX = 64


@dataclass(frozen=True, slots=True)
class Quorum:
    """E >= W >= A >= 1. Survives the loss of A - 1 bookies without losing an acknowledged entry."""

    ensemble: int
    write: int
    ack: int
    # All write sets: they repeat after E entries.
    write_sets: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _ENSEMBLE_MAX >= self.ensemble >= self.write >= self.ack >= 1:
            raise MisuseError(
                f"quorum {self}: ensemble, write and ack quorum must satisfy "
                f"{_ENSEMBLE_MAX} >= ensemble >= write >= ack >= 1"
            )
        sets = tuple(
            tuple((entry + i) % self.ensemble for i in range(self.write)) for entry in range(self.ensemble)
        )
        object.__setattr__(self, "write_sets", sets)

    def __str__(self) -> str:
        return f"{self.ensemble}/{self.write}/{self.ack}"

    def write_set(self, entry: int) -> tuple[int, ...]:
        """Indices in the ensemble of the bookies that store the entry."""
        return self.write_sets[entry % self.ensemble]

    def is_fenced_by(self, answered: Collection[int]) -> bool:
        """Whether a writer can no longer reach the ack quorum of any entry, once these members are fenced."""
        return all(
            sum(member not in answered for member in members) < self.ack for members in self.write_sets
        )

    @property
    def absent(self) -> int:
        """The number of members without an entry that proves that it was not acknowledged."""
        return self.write - self.ack + 1


def parse_quorum(text: str) -> Quorum:
    """Read `3/3/2`: ensemble, write quorum, ack quorum. Raises MisuseError."""
    found = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})/([0-9]{1,3})", text)
    if found is None:
        raise MisuseError(f"{text!r} is not a quorum: write ensemble/write/ack, such as 3/3/2")
    return Quorum(*map(int, found.groups()))
