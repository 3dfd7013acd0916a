"""A table of cities and the latencies between them.

Degrees north and east of the city centres, to a hundredth (about a kilometre), which is far below the
error of the estimated cable length.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

__all__ = ["CITIES", "distance_km"]

EARTH_RADIUS_KM = 6371.0

CITIES: dict[str, tuple[float, float]] = {
    "amsterdam": (52.37, 4.90),
    "athens": (37.98, 23.73),
    "atlanta": (33.75, -84.39),
    "auckland": (-36.85, 174.76),
    "bangkok": (13.76, 100.50),
    "beijing": (39.90, 116.41),
    "berlin": (52.52, 13.41),
    "bogota": (4.71, -74.07),
    "boston": (42.36, -71.06),
    "buenos-aires": (-34.60, -58.38),
    "cairo": (30.04, 31.24),
    "cape-town": (-33.92, 18.42),
    "chicago": (41.88, -87.63),
    "dallas": (32.78, -96.80),
    "delhi": (28.61, 77.21),
    "denver": (39.74, -104.99),
    "dubai": (25.20, 55.27),
    "dublin": (53.35, -6.26),
    "frankfurt": (50.11, 8.68),
    "helsinki": (60.17, 24.94),
    "hong-kong": (22.32, 114.17),
    "houston": (29.76, -95.37),
    "istanbul": (41.01, 28.98),
    "jakarta": (-6.21, 106.85),
    "johannesburg": (-26.20, 28.05),
    "lagos": (6.52, 3.38),
    "lima": (-12.05, -77.04),
    "london": (51.51, -0.13),
    "los-angeles": (34.05, -118.24),
    "madrid": (40.42, -3.70),
    "melbourne": (-37.81, 144.96),
    "mexico-city": (19.43, -99.13),
    "miami": (25.76, -80.19),
    "milan": (45.46, 9.19),
    "minneapolis": (44.98, -93.27),
    "montreal": (45.50, -73.57),
    "moscow": (55.76, 37.62),
    "mumbai": (19.08, 72.88),
    "nairobi": (-1.29, 36.82),
    "new-york": (40.71, -74.01),
    "osaka": (34.69, 135.50),
    "oslo": (59.91, 10.75),
    "paris": (48.86, 2.35),
    "philadelphia": (39.95, -75.17),
    "phoenix": (33.45, -112.07),
    "salt-lake-city": (40.76, -111.89),
    "san-francisco": (37.77, -122.42),
    "santiago": (-33.45, -70.67),
    "sao-paulo": (-23.55, -46.63),
    "seattle": (47.61, -122.33),
    "seoul": (37.57, 126.98),
    "singapore": (1.35, 103.82),
    "stockholm": (59.33, 18.07),
    "sydney": (-33.87, 151.21),
    "taipei": (25.03, 121.57),
    "tokyo": (35.68, 139.65),
    "toronto": (43.65, -79.38),
    "vienna": (48.21, 16.37),
    "warsaw": (52.23, 21.01),
    "washington": (38.91, -77.04),
    "zurich": (47.38, 8.54),
}


def distance_km(one: str, other: str) -> float:
    """The great-circle distance between two cities of the table, by the haversine formula."""
    north, east = (radians(value) for value in CITIES[one])
    other_north, other_east = (radians(value) for value in CITIES[other])
    half_chord = (
        sin((other_north - north) / 2) ** 2
        + cos(north) * cos(other_north) * sin((other_east - east) / 2) ** 2
    )
    # Rounded to a metre: the last digits of a sine depend on the platform, and the trace hash must not.
    return round(2 * EARTH_RADIUS_KM * asin(sqrt(half_chord)), 3)
