"""Convert log entries to Spark rows and back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.errors import SettingsError
from equipoise.pipeline.topic_settings import TopicWriteSettings

__all__ = ["ROWS_DDL", "OutgoingRow", "outgoing", "row_batch"]

ROWS_DDL = "topic string, id string, timestamp timestamp, payload binary, fields map<string, binary>"
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("id", pa.string()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("payload", pa.binary()),
        pa.field("fields", pa.map_(pa.string(), pa.binary())),
    ]
)
_PAYLOAD = b"payload"
# The latest time that Spark can show, in milliseconds: ids may be any numbers.
_MS_MAX = 253_402_300_799_999


def row_batch(topic: str, entries: Sequence[tuple[bytes, list[bytes]]]) -> pa.RecordBatch:
    """`payload` is the value of a field of this name if it is the only one: a published message."""
    ids = [at.decode() for at, _ in entries]
    times = [min(int(at.partition("-")[0]), _MS_MAX) * 1_000 for at in ids]
    payloads = [words[1] if len(words) == 2 and words[0] == _PAYLOAD else None for _, words in entries]
    # A repeated field has its last value.
    fields = [
        list(dict(zip(map(_text, words[::2]), words[1::2], strict=True)).items()) for _, words in entries
    ]
    columns = [[topic] * len(ids), ids, times, payloads, fields]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


class OutgoingRow(NamedTuple):
    """A row as an entry for a log. `id` is empty if rows are identified by number."""

    topic: bytes
    id: bytes
    # Fields and values in turn.
    words: list[bytes]


def outgoing(batch: pa.RecordBatch, settings: TopicWriteSettings) -> Iterator[OutgoingRow]:
    """`payload` alone, or the map `fields`, or each of the other columns as a field. Raises SettingsError."""
    names = batch.schema.names
    own = {"topic"} if not settings.topic else set()
    if not settings.topic and "topic" not in names:
        raise SettingsError("give the option `topic`, or rows with a column `topic`")
    if settings.id_column and settings.id_column not in names:
        raise SettingsError(f"rows have no column {settings.id_column!r} (idColumn)")
    kept = [name for name in names if name not in own | {settings.id_column}]
    if _PAYLOAD.decode() in kept:
        kept = [_PAYLOAD.decode()]
    for row in batch.to_pylist():
        topic = settings.topic or row["topic"]
        if not topic:
            raise SettingsError("a row has no topic")
        row_id = _bytes(row[settings.id_column]) if settings.id_column else b""
        if settings.id_column and not row_id:
            raise SettingsError(f"a row has no id in the column {settings.id_column!r}")
        yield OutgoingRow(topic.encode(), row_id, _words(row, kept))


def _words(row: dict[str, Any], names: Sequence[str]) -> list[bytes]:
    if list(names) == ["fields"]:
        pairs = [(_bytes(name), _bytes(value)) for name, value in row["fields"] or ()]
    else:
        pairs = [(name.encode(), _bytes(row[name])) for name in names if row[name] is not None]
    return [word for pair in pairs or [(_PAYLOAD, b"")] for word in pair]


def _bytes(value: Any) -> bytes:
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            return value.encode()
        case bool():
            return b"true" if value else b"false"
        case datetime() | date():
            return value.isoformat().encode()
    return str(value).encode()
