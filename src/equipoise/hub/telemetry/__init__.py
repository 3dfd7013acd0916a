"""Measurements of a hub and its topics: telemetry ring, INFO, Prometheus."""
