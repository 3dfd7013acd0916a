"""What a hub measures of itself and its topics, and how it is read: telemetry ring, INFO, Prometheus."""
