"""A world to watch: one hub, real clients, a live table."""

from equipoise.demo.figures import Row, percentile, publishing_rate, row_of
from equipoise.demo.story import play

__all__ = ["Row", "percentile", "play", "publishing_rate", "row_of"]
