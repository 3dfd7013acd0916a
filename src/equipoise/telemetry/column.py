"""A column of telemetry: type, unit, kinds of records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["EVERY_KIND", "Column", "ColumnType", "RecordKind", "Role"]


class RecordKind(StrEnum):
    """The subject of a record. The value is that of the column `kind`."""

    TOPIC = "topic"
    HUB = "hub"
    ARRIVAL = "arrival"


class Role(StrEnum):
    """The role of the hub for the topic at the end of the window. The value is that of the column `role`."""

    # It numbers the topic's messages: the only home, or the first of several.
    HOME = "home"
    # It numbers a lane.
    LANE = "lane"
    # It relays messages that another hub has numbered, or forwards its own clients' publishes to that hub.
    RELAY = "relay"


class ColumnType(StrEnum):
    """Spark's names; `arrow_schema` maps them to Arrow's."""

    STRING = "string"
    BINARY = "binary"
    LONG = "bigint"
    DOUBLE = "double"
    # Microseconds, UTC.
    TIMESTAMP = "timestamp"


EVERY_KIND = frozenset(RecordKind)


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `kinds`: the records that fill it; in those it is null only if `meaning` allows it."""

    name: str
    type: ColumnType
    # Of the value; empty for names.
    unit: str
    kinds: frozenset[RecordKind]
    meaning: str
