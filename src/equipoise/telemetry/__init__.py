"""Records that hubs make of their load and everybody else reads: one schema. Pure."""

from equipoise.telemetry.schema import (
    COLUMNS,
    EVERY_KIND,
    Column,
    ColumnType,
    Kind,
    Role,
    arrow_schema,
    columns_of,
    spark_schema,
)

__all__ = [
    "COLUMNS",
    "EVERY_KIND",
    "Column",
    "ColumnType",
    "Kind",
    "Role",
    "arrow_schema",
    "columns_of",
    "spark_schema",
]
