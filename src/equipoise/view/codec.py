"""A view as bytes on its way from the pipeline to the controller. Pure.

    connection   `EQV1 token LF`, the token empty where none is set
    view         header (see HEADER), then three Arrow IPC streams: topics, hubs, carried
    answer       one line for each view: `+` taken, `-reason` refused

Always true: a header is judged before anything of its size is kept; a view that is refused does not end the connection,
a header that makes no sense does.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.errors import ProtocolError, ViewError
from equipoise.view.arrow_table import ViewTables, from_tables
from equipoise.view.view import View

__all__ = ["GREETING", "HEADER_BYTES", "Header", "decode_header", "decode_view", "encode_view", "greeting"]

GREETING = b"EQV1"
_HEADER = struct.Struct("!4sddIII")
_MAGIC = b"VIEW"
HEADER_BYTES = _HEADER.size
# A view of a million topics; the planner is built for a tenth of that.
PART_BYTES_MAX = 256 * 1024 * 1024


class Header(NamedTuple):
    time_s: float
    window_s: float
    sizes: tuple[int, int, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes)


def greeting(token: str) -> bytes:
    return GREETING + b" " + token.encode() + b"\n"


def encode_view(time_s: float, window_s: float, tables: ViewTables) -> bytes:
    parts = [_to_ipc(table) for table in tables]
    return b"".join((_HEADER.pack(_MAGIC, time_s, window_s, *map(len, parts)), *parts))


def decode_header(data: bytes) -> Header:
    """Raises ProtocolError if it is none."""
    magic, time_s, window_s, *sizes = _HEADER.unpack(data)
    if magic != _MAGIC or max(sizes) > PART_BYTES_MAX:
        raise ProtocolError("not the header of a view")
    if not (math.isfinite(time_s) and math.isfinite(window_s)):
        raise ProtocolError("a view of no time")
    return Header(time_s, window_s, (sizes[0], sizes[1], sizes[2]))


def decode_view(header: Header, data: bytes) -> View:
    """Raises ViewError."""
    parts: list[pa.Table] = []
    at = 0
    for size in header.sizes:
        try:
            parts.append(pa.ipc.open_stream(data[at : at + size]).read_all())
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise ViewError(f"not a table: {problem}") from problem
        at += size
    return from_tables(header.time_s, ViewTables(*parts), window_s=header.window_s)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made
