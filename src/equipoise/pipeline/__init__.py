"""Telemetry in, a view out, history kept: PySpark Structured Streaming.

Nothing here is imported by a hub, a client or the controller: Spark is for those who run `equipoise pipeline`.
"""
