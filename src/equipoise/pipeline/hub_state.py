"""The window of each hub, stored for its tasks: one file per hub and batch, in a folder that executors share.

A task reads a hub's new records, adds them here, and sums the window of that hub. The executor of a hub changes from
batch to batch; the files, mapped into memory, are the only shared state.

Always true: a repeated batch writes the same files again; a file is complete or does not exist; the task that has a hub
deletes the files from before its window. An unreadable file loses its records: sums are over the remaining ones.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.packed_tables import pack_table, unpack_table
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled

__all__ = ["HubState"]

log = logging.getLogger("equipoise.pipeline")

# In a file of topics' samples: the keys of the hub's own samples, and of the time of its last record.
_HUBS, _UNTIL = b"hubs", b"until_us"


class HubState(NamedTuple):
    """The state for one batch. Sent to tasks."""

    folder: Path
    batch: int
    over_us: int

    def updated(self, found: Sampled) -> Sampled:
        """Store the samples, and return all samples in the windows of their hubs, in order of time."""
        topics, hubs = [TOPIC_SAMPLES.empty_table()], [HUB_SAMPLES.empty_table()]
        names = [pc.unique(samples.column("hub")).to_pylist() for samples in (found.hubs, found.topics)]
        for hub in dict.fromkeys([*names[0], *names[1]]):
            folder = self.folder / quote(hub, safe="")
            self._write(folder, _of(found.topics, hub), _of(found.hubs, hub))
            for kept_topics, kept_hubs in self._window(folder):
                topics.append(kept_topics)
                hubs.append(kept_hubs)
        return Sampled(pa.concat_tables(topics), pa.concat_tables(hubs), found.rejected)

    def _write(self, folder: Path, topics: pa.Table, hubs: pa.Table) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        times = [pc.max(table.column("time_us")).as_py() or 0 for table in (topics, hubs)]
        metadata = {_HUBS: pack_table(hubs), _UNTIL: b"%d" % max(times)}
        path = folder / f"{self.batch:012d}.arrow"
        unfinished = path.with_suffix(f".{os.getpid()}")
        table = topics.replace_schema_metadata(metadata).combine_chunks()
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        unfinished.rename(path)

    def _window(self, folder: Path) -> list[tuple[pa.Table, pa.Table]]:
        """From the newest file back, until one is before the hub's window; that and older ones are deleted."""
        found: list[tuple[pa.Table, pa.Table]] = []
        newest_us = 0
        paths = sorted(folder.glob("*.arrow"), reverse=True)
        for at, path in enumerate(paths):
            if path.stem > f"{self.batch:012d}":
                continue
            try:
                table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            except (pa.ArrowException, OSError) as problem:
                log.warning("%s cannot be read, and is skipped: %s", path, problem)
                continue
            metadata = table.schema.metadata
            hubs = unpack_table(metadata[_HUBS])
            newest_us = max(newest_us, pc.max(hubs.column("time_us")).as_py() or 0)
            if int(metadata[_UNTIL]) <= newest_us - self.over_us:
                for old in paths[at:]:
                    old.unlink(missing_ok=True)
                break
            found.append((table.replace_schema_metadata(None), hubs))
        return found[::-1]


def _of(samples: pa.Table, hub: str) -> pa.Table:
    return samples.filter(pc.equal(samples.column("hub"), hub))
