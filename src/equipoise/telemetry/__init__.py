"""Telemetry records of hubs: schema, ring, Arrow encoding. Pure."""

from equipoise.telemetry.column import EVERY_KIND, Column, ColumnType, RecordKind, Role
from equipoise.telemetry.load import EDGE_STATES
from equipoise.telemetry.ring import Block, NameColumn, Numbers, Part, TelemetryRing, Values, narrow
from equipoise.telemetry.schema import COLUMNS, arrow_schema, columns_of, spark_schema

__all__ = [
    "COLUMNS",
    "EDGE_STATES",
    "EVERY_KIND",
    "Block",
    "Column",
    "ColumnType",
    "NameColumn",
    "Numbers",
    "Part",
    "RecordKind",
    "Role",
    "TelemetryRing",
    "Values",
    "arrow_schema",
    "columns_of",
    "narrow",
    "spark_schema",
]
