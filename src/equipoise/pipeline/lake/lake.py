"""The lake on disk: Parquet files by date and hour, each record exactly once.

    records/date=2026-11-15/hour=12/*.parquet   files for readers
    _staging/ID/                                files of one task, until the commit
    _batches/QUERY.json                         the progress of a query, and its pending renames
    _merges/ID.json                             files that a merged file has replaced

A batch is committed to the lake in three steps: workers write files into `_staging`; the list of their final names is
stored; the files are renamed. Spark repeats a batch after a crash, and the list shows the second run what is left to
do: without a list it begins anew, with one it finishes the renames, and a finished batch is skipped. So each record is
stored once, for a crash at any moment.

A merge stores the list of replaced files, and then renames one file: that is the commit. Readers skip the replaced
files until they are deleted.

Always true: the files in `files` hold each valid record of every finished batch exactly once; no file with a pending
rename is deleted. All machines that run Spark need access to the folder. A power cut may lose the last seconds, as only
the lists are synced.

Only one process at a time changes a lake. The lock is the kernel's, on a file in the lake: it ends with the process
that holds it, in every case; readers need none. On a network file system it may be valid on one machine only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from equipoise.errors import DamagedError, PipelineError, SettingsError

__all__ = ["Lake", "Merge", "held"]

log = logging.getLogger("equipoise.pipeline")

_POLL_S = 0.05
# Maximum of the holder's text: enough for its number and name.
_WORDS_BYTES_MAX = 200


@contextmanager
def held(lake: Path, who: str, *, wait_s: float) -> Iterator[None]:
    """Change the lake in this block. `who` is the name shown to others, such as `equipoise pipeline`.

    Raises SettingsError if another process holds it for longer than `wait_s`, or the folder cannot be used.
    """
    try:
        lake.mkdir(parents=True, exist_ok=True)
        # Closed in every child process: it must not outlive this process there.
        lock = os.open(lake / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise SettingsError(f"cannot use {lake}: {problem.strerror}") from problem
    try:
        _take(lock, lake, time.monotonic() + wait_s)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}, {who}".encode(), 0)
        yield
    finally:
        os.close(lock)


def _take(lock: int, lake: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            if time.monotonic() >= deadline:
                holder = os.pread(lock, _WORDS_BYTES_MAX, 0).decode(errors="replace") or "another process"
                raise SettingsError(
                    f"{lake} is in use by {holder}: wait until it has ended, or stop it, and try again"
                ) from problem
            time.sleep(_POLL_S)
        except OSError as problem:
            # Some network file systems have no locks; running without protection is better than not running.
            log.warning("%s cannot be locked (%s): let one process at a time use it", lake, problem.strerror)
            return
        else:
            return


Kept = TypeVar("Kept", bound=msgspec.Struct)


class _Move(msgspec.Struct, frozen=True):
    """A file to be renamed; both paths are relative to the lake."""

    staged: str
    final: str


class _Progress(msgspec.Struct, frozen=True):
    """The state of one query. `moves`: of `batch`, to be executed unless it `is_done`."""

    batch: int
    is_done: bool
    moves: list[_Move] = []


class Merge(msgspec.Struct, frozen=True):
    """One file in place of several; relative to the lake."""

    staged: str
    final: str
    replaced: list[str]
    # When it was stored, in seconds since 1970.
    at_s: float


class Lake:
    """One folder. Several queries may write to it, each under its own name, in one process (`lake_lock`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # For renames and deletions: one thread commits a batch while another cleans the lake.
        self._changing = threading.Lock()

    @property
    def records(self) -> Path:
        return self.folder / "records"

    @property
    def staging(self) -> Path:
        return self.folder / "_staging"

    # --- batches

    def is_finished(self, query: str, batch: int) -> bool:
        """Whether this batch is complete; finishes an interrupted commit."""
        progress = self._progress(query)
        if progress is None or progress.batch < batch:
            return False
        if not progress.is_done:
            with self._changing:
                self._finish(query, progress)
        return True

    def commit(self, query: str, batch: int, staged: Iterable[str]) -> list[str]:
        """Commit the staged files, which are all of this batch; returns their final names.

        Raises PipelineError, without a change, if one of them does not exist any more.
        """
        moves = [
            _Move(name, _final(name, f"{query}-{batch:010d}-{at:03d}"))
            for at, name in enumerate(sorted(staged))
        ]
        progress = _Progress(batch, False, moves)
        with self._changing:
            # Once the list is stored, a missing file could not be replaced.
            for move in moves:
                if not (self.folder / move.staged).exists():
                    raise PipelineError(
                        f"{move.staged} was deleted before its batch was finished: restart the pipeline"
                    )
            _write(self._progress_path(query), progress)
            self._finish(query, progress)
        return [move.final for move in moves]

    def _finish(self, query: str, progress: _Progress) -> None:
        for move in progress.moves:
            self._rename(move.staged, move.final)
        _write(self._progress_path(query), _Progress(progress.batch, True))

    def _progress(self, query: str) -> _Progress | None:
        return _read(self._progress_path(query), _Progress)

    def _progress_path(self, query: str) -> Path:
        return self.folder / "_batches" / f"{query}.json"

    # --- merges

    def merge(self, merge: Merge, name: str) -> bool:
        """Replace several files by a staged one; not if one of them was replaced or deleted meanwhile."""
        path = self._merges / f"{name}.json"
        with self._changing:
            present = {str(each.relative_to(self.folder)) for each in self.files([_hour(merge.final)])}
            if not present.issuperset(merge.replaced):
                return False
            _write(path, merge)
            self._rename(merge.staged, merge.final)
        return True

    def clean(self, *, before_s: float) -> int:
        """Delete files that were replaced before this time, and leftovers of crashes; returns the number of replaced
        ones.

        Readers list files and read them soon after: keep replaced ones for some minutes.
        """
        with self._changing:
            deleted = self._delete_replaced(before_s)
            kept = self._to_be_renamed()
            for folder in self.staging.glob("*"):
                # As a whole: a task that still writes into it has recently changed it or a folder in it.
                if folder.name not in kept and _changed_s(folder) < before_s:
                    shutil.rmtree(folder, ignore_errors=True)
        return deleted

    def expire(self, hours_before: str) -> int:
        """Delete the files of hours before `date=…/hour=…`; returns how many."""
        deleted = 0
        with self._changing:
            for hour in self.hours():
                if hour < hours_before:
                    folder = self.records / hour
                    for path in folder.glob("*.parquet"):
                        path.unlink(missing_ok=True)
                        deleted += 1
                    _remove_empty(folder, self.records)
        return deleted

    def _delete_replaced(self, before_s: float) -> int:
        deleted = 0
        merges = sorted(self._all_merges(), key=lambda each: each[1].at_s)
        hiding = {merge.final for _, merge in merges}
        for path, merge in merges:
            # A replacing file that was replaced itself has to be deleted after the files that it replaced.
            if merge.at_s >= before_s or not hiding.isdisjoint(merge.replaced):
                continue
            if (self.folder / merge.final).exists():
                for name in merge.replaced:
                    (self.folder / name).unlink(missing_ok=True)
                    deleted += 1
            path.unlink(missing_ok=True)
            hiding.remove(merge.final)
        return deleted

    def _to_be_renamed(self) -> set[str]:
        """Folders of the staging in a stored list: of unfinished batches, and of merges."""
        names = [merge.staged for _, merge in self._all_merges()]
        for path in (self.folder / "_batches").glob("*.json"):
            progress = _read(path, _Progress)
            if progress is not None and not progress.is_done:
                names += [move.staged for move in progress.moves]
        return {Path(name).parts[1] for name in names}

    # --- reading

    def hours(self) -> list[str]:
        """As `date=2026-11-15/hour=12`, in order of time."""
        return sorted(str(path.relative_to(self.records)) for path in self.records.glob("date=*/hour=*"))

    def files(self, hours: Iterable[str] | None = None) -> list[Path]:
        """The files to read, of these hours or of all; none replaces another of them."""
        hidden: set[str] = set()
        listed = {
            str(path.relative_to(self.folder)): path
            for hour in (self.hours() if hours is None else hours)
            for path in sorted((self.records / hour).glob("*.parquet"))
        }
        # After the listing: a merge in between neither adds its file to the list nor removes replaced ones from it.
        for _, merge in self._all_merges():
            if merge.final in listed:
                hidden.update(merge.replaced)
        return [path for name, path in listed.items() if name not in hidden]

    @property
    def _merges(self) -> Path:
        return self.folder / "_merges"

    def _all_merges(self) -> list[tuple[Path, Merge]]:
        found = [(path, _read(path, Merge)) for path in sorted(self._merges.glob("*.json"))]
        return [(path, merge) for path, merge in found if merge is not None]

    def _rename(self, staged: str, final: str) -> None:
        """Once: a file that is not in the staging any more was renamed before."""
        target = self.folder / final
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            (self.folder / staged).replace(target)
        except FileNotFoundError:
            if not target.exists():
                raise DamagedError(
                    str(self.folder), f"{staged} disappeared before it was committed"
                ) from None
        _remove_empty((self.folder / staged).parent, self.staging)


def _final(staged: str, name: str) -> str:
    """`_staging/ANY/date=…/hour=…/x.parquet` becomes `records/date=…/hour=…/NAME.parquet`."""
    return f"records/{_hour(staged)}/{name}.parquet"


def _hour(name: str) -> str:
    """The `date=…/hour=…` of a file."""
    return "/".join(Path(name).parts[-3:-1])


def _write(path: Path, value: msgspec.Struct) -> None:
    """Atomic, and on the disk before it is used."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _read(path: Path, kind: type[Kept]) -> Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as problem:
        raise DamagedError(str(path), str(problem)) from problem


def _changed_s(folder: Path) -> float:
    """The time of the last change in it, in seconds since 1970."""
    newest = 0.0
    for path in (folder, *folder.rglob("*")):
        try:
            newest = max(newest, path.stat().st_mtime)
        except FileNotFoundError:
            pass  # Committed meanwhile.
    return newest


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove the folder and its empty parents below `top`."""
    while folder != top:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass  # By a run that crashed then.
        except OSError:
            return
        folder = folder.parent
