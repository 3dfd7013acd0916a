"""`equipoise topics export` and `import`: move the log of a topic to and from a file.

The suffix selects JSON lines (`.jsonl`) or Parquet (`.parquet`). An entry is its id, and alternating fields and values;
in JSON, bytes that are not UTF-8 text are `{"base64": …}`. Groups are not exported.

An import keeps the ids, and continues after the last id in the log: repeat an interrupted import.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.support.hub_connection import CommandConnection, on_hub
from equipoise.cli.support.store_options import AsJson
from equipoise.cli.support.tables import show_result
from equipoise.errors import SettingsError

__all__ = ["export_log", "import_log"]

# Entries requested, or added, at a time.
_AT_ONCE = 1_000

# An id, and alternating fields and values.
Entry = tuple[tuple[int, int], list[bytes]]
LogFile = Annotated[Path, typer.Argument(metavar="FILE", help="File that ends in .jsonl or .parquet.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic whose log it is.")]


@on_hub
async def export_log(
    connection: CommandConnection, topic: TopicName, file: LogFile, *, as_json: AsJson = False
) -> None:
    """Write the log of a topic to a file. The file appears once it is complete."""
    _check(file)
    if not await connection.ask(b"EXISTS", topic.encode()):
        raise SettingsError(f"topic {topic} has no log")
    count = 0
    part = file.with_name(f"{file.name}.part")
    try:
        with _writer(file, part) as write:
            async for entries in _pages(connection, topic.encode()):
                write(entries)
                count += len(entries)
        part.replace(file)
    except OSError as problem:
        with suppress(OSError):
            part.unlink()
        raise SettingsError(f"cannot write {file}: {problem.strerror or problem}") from problem
    show_result({"topic": topic, "entries": count}, f"{count} entries of {topic} in {file}", as_json=as_json)


@on_hub
async def import_log(
    connection: CommandConnection, topic: TopicName, file: LogFile, *, as_json: AsJson = False
) -> None:
    """Add the entries of a file to the log of a topic, under their ids. Entries up to its last id are left out."""
    _check(file)
    added = skipped = 0
    last = await connection.ask(b"XREVRANGE", topic.encode(), b"+", b"-", b"COUNT", b"1")
    known = _id(last[0][0]) if last else (0, 0)
    for at, fields in _read(file):
        if at <= known:
            skipped += 1
            continue
        await connection.ask(b"XADD", topic.encode(), b"%d-%d" % at, *fields)
        added += 1
    facts = {"topic": topic, "added": added, "skipped": skipped}
    show_result(facts, f"{added} entries added to {topic}, {skipped} skipped", as_json=as_json)


def _check(file: Path) -> None:
    if file.suffix not in (".jsonl", ".parquet"):
        raise SettingsError(f"{file}: give a file that ends in .jsonl or .parquet")


async def _pages(connection: CommandConnection, topic: bytes) -> AsyncIterator[list[Entry]]:
    start = b"-"
    while True:
        found = await connection.ask(b"XRANGE", topic, start, b"+", b"COUNT", b"%d" % _AT_ONCE)
        if not found:
            return
        yield [(_id(at), fields) for at, fields in found]
        start = b"(" + found[-1][0]


def _id(at: bytes) -> tuple[int, int]:
    ms, _, seq = at.partition(b"-")
    return int(ms), int(seq)


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def __call__(self, entries: list[Entry]) -> None:
        for (ms, seq), fields in entries:
            line = {"id": f"{ms}-{seq}", "fields": [_text(word) for word in fields]}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


class _Parquet:
    def __init__(self, path: Path) -> None:
        import pyarrow as arrow  # type: ignore[import-untyped]  # no stubs
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]  # no stubs

        self._arrow = arrow
        columns = [("ms", arrow.uint64()), ("seq", arrow.uint64()), ("fields", arrow.list_(arrow.binary()))]
        self._schema = arrow.schema(columns)
        self._file = parquet.ParquetWriter(path, self._schema)

    def __call__(self, entries: list[Entry]) -> None:
        rows = [{"ms": ms, "seq": seq, "fields": fields} for (ms, seq), fields in entries]
        self._file.write_table(self._arrow.Table.from_pylist(rows, schema=self._schema))

    def __enter__(self) -> _Parquet:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


def _writer(file: Path, part: Path) -> _JsonLines | _Parquet:
    return _Parquet(part) if file.suffix == ".parquet" else _JsonLines(part)


def _read(file: Path) -> Iterator[Entry]:
    """Raises SettingsError if the file cannot be read or is not a log."""
    try:
        yield from _read_parquet(file) if file.suffix == ".parquet" else _read_json(file)
    except OSError as problem:
        raise SettingsError(f"cannot read {file}: {problem.strerror or problem}") from problem


def _read_json(file: Path) -> Iterator[Entry]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                entry = _id(row["id"].encode()), [_bytes(word) for word in _words(row["fields"])]
            except (ValueError, KeyError, TypeError, AttributeError) as problem:
                raise SettingsError(
                    f"{file}, line {number}: not an entry of a log: write "
                    '{"id": "1-1", "fields": ["field", "value"]}'
                ) from problem
            yield entry


def _read_parquet(file: Path) -> Iterator[Entry]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        for batch in parquet.ParquetFile(file).iter_batches(_AT_ONCE, columns=["ms", "seq", "fields"]):
            for row in batch.to_pylist():
                yield (row["ms"], row["seq"]), row["fields"]
    except (arrow.ArrowInvalid, KeyError) as problem:
        raise SettingsError(f"{file}: not an exported log: {problem}") from problem


def _text(word: bytes) -> Any:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(word).decode()}


def _words(fields: Any) -> list[Any]:
    """Alternating fields and values. Raises ValueError."""
    if not isinstance(fields, list) or not fields or len(fields) % 2:
        raise ValueError("alternating fields and values are required")
    return fields


def _bytes(word: Any) -> bytes:
    if isinstance(word, dict):
        return base64.b64decode(word["base64"], validate=True)
    if not isinstance(word, str):
        raise ValueError("neither text nor base64")
    return word.encode()
