"""Where the clients of topics are, as columns of their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.hub.places.sides import Side
from equipoise.telemetry import Names, Numbers, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.topics import Topic

__all__ = ["columns_of"]

_SIDES = ("publishers", "subscribers")
_NUMBERS: dict[str, Callable[[Side], int]] = {
    name: attrgetter(name) for name in ("located", "deviation_us", "leg_us_max")
}
_where = attrgetter("where")


def columns_of(topics: Sequence[Topic]) -> dict[str, Values]:
    """Nothing where nothing is known of any of them."""
    known = list(map(_where, topics))
    if not any(known):
        return {}
    values: dict[str, Values] = {}
    for name in _SIDES:
        sides = [where and getattr(where, name) for where in known]
        if any(sides):
            values |= _columns(name, sides)
    return values


def _columns(name: str, sides: Sequence[Side | None]) -> dict[str, Values]:
    known = [side for side in sides if side is not None]
    if len(known) < len(sides):
        return {
            f"{name}_at": Names.of_optional([None if side is None else side.at for side in sides]),
            **{
                f"{name}_{key}": Numbers.of_optional([None if side is None else of(side) for side in sides])
                for key, of in _NUMBERS.items()
            },
        }
    at = [side.at for side in known]
    return {
        f"{name}_at": at[0] if at.count(at[0]) == len(at) else Names.of(at),
        **{f"{name}_{key}": narrow(list(map(of, known))) for key, of in _NUMBERS.items()},
    }
