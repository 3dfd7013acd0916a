"""Equipoise: pub/sub that keeps every topic inside its limits, spoken over the Redis protocol."""

__version__ = "0.1.0"

__all__ = ["__version__"]
