"""Network coordinates: estimate the round trip between any two nodes without measuring it.

Read `coordinate` (the value), `settings` (its constants and their sources), `estimator` (how a node finds its own),
`stability` (when to announce a change), `centroid` (the summary of many clients), `finder` (which hubs a client
probes and reports to).
"""

from equipoise.coordinates.centroid import ClientGroup, centroid_of
from equipoise.coordinates.coordinate import Coordinate
from equipoise.coordinates.estimator import Estimator
from equipoise.coordinates.finder import Finder
from equipoise.coordinates.settings import CoordinateSettings, FinderSettings
from equipoise.coordinates.stability import Stability

__all__ = [
    "ClientGroup",
    "Coordinate",
    "CoordinateSettings",
    "Estimator",
    "Finder",
    "FinderSettings",
    "Stability",
    "centroid_of",
]
