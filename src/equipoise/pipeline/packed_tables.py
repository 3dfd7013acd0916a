"""Arrow tables as bytes, as values of Spark's rows carry them. Pure."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

__all__ = ["pack_table", "unpack_table"]


def pack_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpack_table(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()
