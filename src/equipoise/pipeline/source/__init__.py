"""The Spark data source: hubs as partitions, telemetry sequence numbers as offsets."""
