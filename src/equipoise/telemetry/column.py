"""A column of telemetry: type, unit, kinds of records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["EVERY_KIND", "Column", "ColumnType", "RecordKind", "Role"]


class RecordKind(StrEnum):
    """What a record is about. The value is what the column `kind` holds."""

    TOPIC = "topic"
    HUB = "hub"
    ARRIVAL = "arrival"


class Role(StrEnum):
    """What the hub is to the topic at the end of the window. The value is what the column `role` holds."""

    # It numbers the topic's messages: the only home, or the first of several.
    HOME = "home"
    # It numbers a stream beside the trunk.
    LANE = "lane"
    # It passes on what another hub has numbered, or passes on to it what its own clients publish.
    RELAY = "relay"


class ColumnType(StrEnum):
    """Spark's words; `arrow_schema` knows what Arrow calls them."""

    STRING = "string"
    BINARY = "binary"
    LONG = "bigint"
    DOUBLE = "double"
    # Microseconds, UTC.
    TIMESTAMP = "timestamp"


EVERY_KIND = frozenset(RecordKind)


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `kinds`: the records that fill it; in those it is null only where `meaning` says so."""

    name: str
    type: ColumnType
    # Of the value; empty for names.
    unit: str
    kinds: frozenset[RecordKind]
    meaning: str
