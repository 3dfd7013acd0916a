"""Where the clients of topics are, as columns of their records.

From window to window little of that changes, so what was made for a slice of topics is given again if it holds of them
still. Blocks of several windows then share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.hub.locations.client_location import Side
from equipoise.telemetry import NameColumn, Numbers, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.data.topics import Topic

__all__ = ["Columns"]

_NUMBERS: dict[str, Callable[[Side], int]] = {
    name: attrgetter(name) for name in ("located", "deviation_us", "leg_us_max")
}
_where = attrgetter("where")
_SIDES = {name: attrgetter(name) for name in ("publishers", "subscribers")}


class Columns:
    """Owned by Renewing. `begin` each window, then `of` slice by slice."""

    def __init__(self) -> None:
        self._slice = 0
        # By the number of the slice and the name of the side: the sides, and the columns that they make.
        self._made: dict[tuple[int, str], tuple[list[Side | None], dict[str, Values]]] = {}

    def begin(self) -> None:
        # Slices that the last window did not have are forgotten.
        self._made = {key: made for key, made in self._made.items() if key[0] <= self._slice}
        self._slice = 0

    def of(self, topics: Sequence[Topic]) -> dict[str, Values]:
        """Nothing where nothing is known of any of them."""
        self._slice += 1
        known = list(map(_where, topics))
        if not any(known):
            return {}
        values: dict[str, Values] = {}
        for name, side_of in _SIDES.items():
            sides = list(map(side_of, known)) if all(known) else [where and side_of(where) for where in known]
            values |= self._columns(name, sides)
        return values

    def _columns(self, name: str, sides: list[Side | None]) -> dict[str, Values]:
        key = self._slice, name
        made = self._made.get(key)
        if made is None or made[0] != sides:
            made = self._made[key] = (sides, _made_of(name, sides))
        return made[1]


def _made_of(name: str, sides: Sequence[Side | None]) -> dict[str, Values]:
    known = [side for side in sides if side is not None]
    if not known:
        return {}
    if len(known) < len(sides):
        return {
            f"{name}_at": NameColumn.of_optional([None if side is None else side.at for side in sides]),
            **{
                f"{name}_{key}": Numbers.of_optional([None if side is None else of(side) for side in sides])
                for key, of in _NUMBERS.items()
            },
        }
    at = [side.at for side in known]
    return {
        f"{name}_at": at[0] if at.count(at[0]) == len(at) else NameColumn.of(at),
        **{f"{name}_{key}": narrow(list(map(of, known))) for key, of in _NUMBERS.items()},
    }
