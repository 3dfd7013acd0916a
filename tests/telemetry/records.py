"""Blocks to test with, and records read back by pyarrow, which had no part in writing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from equipoise.telemetry import COLUMNS, Block, NameColumn, RecordKind, Values, narrow

SECOND_US = 1_000_000


def topic_block(names: Sequence[bytes], publications: Sequence[int], *, time_us: int = 0) -> Block:
    values: dict[str, Values] = {
        "topic": NameColumn.of(names),
        "role": "home",
        "publications": narrow(publications),
        "cuts": 0,
    }
    return Block.of(RecordKind.TOPIC, len(names), values, time_us=time_us, window_us=SECOND_US)


def hub_block(cpu_ratio: float = 0.5, *, time_us: int = 0) -> Block:
    return Block.of(
        RecordKind.HUB, 1, {"cpu_ratio": cpu_ratio, "connections": 3}, time_us=time_us, window_us=SECOND_US
    )


def read_stream(stream: bytes) -> list[dict[str, Any]]:
    """The records of an Arrow stream, checked as strictly as Arrow can; what it has no column of is null."""
    table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    missing: dict[str, Any] = {
        column.name: None for column in COLUMNS if column.name not in table.column_names
    }
    return [record | missing for record in table.to_pylist()]
