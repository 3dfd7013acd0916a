"""A coordinate reported by another node."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.errors import CoordinateError

SETTINGS = CoordinateSettings()
COUNT = SETTINGS.dimensions + 3

within = st.floats(min_value=-20, max_value=20)
heights = st.floats(min_value=0, max_value=20)


@given(
    st.lists(within, min_size=SETTINGS.dimensions, max_size=SETTINGS.dimensions),
    st.floats(min_value=0, max_value=SETTINGS.error_max),
    heights,
    within,
)
def test_a_coordinate_survives_encoding(
    point: list[float], error: float, height_s: float, adjustment_s: float
) -> None:
    told = Coordinate(tuple(point), error, height_s, adjustment_s)
    assert Coordinate.from_bytes(told.to_bytes(), SETTINGS) == told


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * (8 * COUNT + 1),
        struct.pack(f"<{COUNT - 1}d", *[0.0] * (COUNT - 1)),
        struct.pack(f"<{COUNT}d", *[float("nan")] * COUNT),
        struct.pack(f"<{COUNT}d", float("inf"), *[0.0] * (COUNT - 1)),
        struct.pack(f"<{COUNT}d", 1e6, *[0.0] * (COUNT - 1)),
        struct.pack(f"<{COUNT}d", *[0.0] * (COUNT - 2), -1.0, 0.0),
    ],
)
def test_an_invalid_coordinate_is_rejected(data: bytes) -> None:
    with pytest.raises(CoordinateError):
        Coordinate.from_bytes(data, SETTINGS)
