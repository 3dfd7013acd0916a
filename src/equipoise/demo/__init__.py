"""A world to watch: a few hubs, real clients, a topic that moves, a live table."""

from equipoise.demo.figures import Row, percentile, publishing_rate, row_of
from equipoise.demo.moving import Mover
from equipoise.demo.story import play

__all__ = ["Mover", "Row", "percentile", "play", "publishing_rate", "row_of"]
