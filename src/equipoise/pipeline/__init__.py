"""Telemetry in, a view out, history kept: PySpark Structured Streaming.

No hub, client or controller imports this package: only `equipoise pipeline` needs Spark.
"""
