"""Nouns that every plane shares. Pure."""

from equipoise.model.glob import Glob
from equipoise.model.position import Position

__all__ = ["Glob", "Position"]
