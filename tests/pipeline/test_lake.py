"""The lake on disk: each record once, at any moment of a crash; few large files after merging."""

from __future__ import annotations

import itertools
import os
import random
import threading
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.errors import DamagedError, PipelineError
from equipoise.pipeline.lake.compaction import groups, merged
from equipoise.pipeline.lake.lake import Lake, Merge
from equipoise.pipeline.lake.writer import hour_folder, written
from equipoise.pipeline.samples import WHERE_COLUMNS
from equipoise.pipeline.settings import KeepingSettings, Plausible
from equipoise.pipeline.validation import judged
from pipeline.places import random_place, side_told
from pipeline.records import SECOND_US, START_US, batch_of, hub_record, numbered, topic_record

HOUR_US = 3600 * SECOND_US
NOW_US = START_US + 10 * HOUR_US


def staged(lake: Lake, *numbers: int, at_us: int = START_US) -> list[str]:
    """Write records with these numbers into the staging, as a worker does."""
    records = [topic_record(b"t", at_us) | {"sequence": number} for number in numbers]
    batch = judged(batch_of(numbered("h1", records)), now_us=NOW_US, plausible=Plausible())
    return [file.name for file in written([batch], lake.folder)]


def numbers_in(lake: Lake) -> list[int]:
    found: list[int] = []
    for path in lake.files():
        found += pq.read_table(path, partitioning=None).column("sequence").to_pylist()
    return sorted(found)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


class CrashError(Exception):
    pass


def test_committed_records_are_visible_and_staged_ones_are_not(lake: Lake) -> None:
    staged(lake, 1, 2)
    assert numbers_in(lake) == []
    assert not lake.is_finished("q", 0)
    lake.commit("q", 0, staged(lake, 1, 2))
    assert numbers_in(lake) == [1, 2]
    assert lake.is_finished("q", 0)
    assert not lake.is_finished("q", 1)
    assert not lake.is_finished("another", 0)


def test_records_are_in_the_folder_of_their_hour(lake: Lake) -> None:
    files = staged(lake, 1) + staged(lake, 2, at_us=START_US + HOUR_US)
    lake.commit("q", 0, files)
    assert lake.hours() == sorted([hour_folder(START_US), hour_folder(START_US + HOUR_US)])
    [path] = lake.files([hour_folder(START_US + HOUR_US)])
    assert pq.read_table(path, partitioning=None).column("sequence").to_pylist() == [2]


def test_rejected_records_are_not_kept(lake: Lake) -> None:
    records = numbered("h1", [hub_record(START_US), hub_record(START_US, cpu_ratio=-1.0)])
    batch = judged(batch_of(records), now_us=NOW_US, plausible=Plausible())
    assert [file.records for file in written([batch], lake.folder)] == [1]


@pytest.mark.parametrize("steps", range(8))
def test_a_batch_that_crashes_at_any_step_and_is_run_again_is_stored_once(
    lake: Lake, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A batch of two hours is staged and committed; 2. at some rename the process dies; 3. the lake is cleaned,
    long after; 4. Spark runs the batch again, which may find less, as a hub forgot some; 5. then the next batch."""
    lake.commit("q", 0, staged(lake, 0))
    left = itertools.count(steps, -1)
    whole_replace = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if next(left) <= 0:
            raise CrashError
        return whole_replace(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    try:
        lake.commit("q", 1, staged(lake, 1, 2) + staged(lake, 3, at_us=START_US + HOUR_US))
    except CrashError:
        pass
    monkeypatch.undo()
    again = Lake(lake.folder)
    again.clean(before_s=4e9)
    is_whole = again.is_finished("q", 1)
    if not is_whole:
        assert again.commit("q", 1, staged(again, 2) + staged(again, 3, at_us=START_US + HOUR_US))
    again.commit("q", 2, staged(again, 4))
    assert numbers_in(again) == ([0, 1, 2, 3, 4] if is_whole else [0, 2, 3, 4])
    # Without the list nothing was begun; with it everything is finished.
    assert is_whole == (steps >= 1)


def merge_all(lake: Lake, at_s: float = 0.0) -> None:
    for group in groups(lake, KeepingSettings(), present_hour="", is_all=True):
        made = merged(lake.folder, group)
        lake.merge(type(made)(made.staged, made.final, made.replaced, at_s), Path(made.staged).parent.name)


def test_merged_files_have_the_same_records_and_hide_the_replaced_files(lake: Lake) -> None:
    for batch in range(10):
        lake.commit("q", batch, staged(lake, 2 * batch, 2 * batch + 1))
    merge_all(lake, at_s=100.0)
    assert len(lake.files()) == 1
    assert numbers_in(lake) == list(range(20))
    # The replaced files stay for current readers.
    assert len(list(lake.records.rglob("*.parquet"))) == 11
    assert lake.clean(before_s=50.0) == 0
    assert lake.clean(before_s=200.0) == 10
    assert len(list(lake.records.rglob("*.parquet"))) == 1
    lake.commit("q", 10, staged(lake, 20))
    assert numbers_in(lake) == list(range(21))


@pytest.mark.parametrize("names", [("1", "2"), ("2", "1")])
def test_a_file_that_was_merged_twice_is_cleaned_up_without_restoring_records(
    lake: Lake, names: tuple[str, str]
) -> None:
    """1. Files are merged; 2. more come, and all are merged again; 3. both merges are cleaned up in one round,
    which may die anywhere."""
    for at, name in enumerate(names):
        lake.commit("q", 2 * at, staged(lake, 2 * at))
        lake.commit("q", 2 * at + 1, staged(lake, 2 * at + 1))
        [group] = groups(lake, KeepingSettings(), present_hour="", is_all=True)
        made = merged(lake.folder, group)
        lake.merge(type(made)(made.staged, made.final, made.replaced, 100.0 + at), name)
    assert len(list(lake.records.rglob("*.parquet"))) == 6
    while lake.clean(before_s=200.0):
        assert numbers_in(lake) == [0, 1, 2, 3]
    assert numbers_in(lake) == [0, 1, 2, 3]
    assert len(list(lake.records.rglob("*.parquet"))) == 1


@pytest.mark.parametrize("is_before", [True, False])
def test_a_reader_during_a_merge_sees_each_record_once(lake: Lake, is_before: bool) -> None:
    """Another process merges just before or just after the reader looks which files were replaced."""

    class Reader(Lake):
        def _all_merges(self) -> list[tuple[Path, Merge]]:
            if is_before:
                merge_all(lake)
            found = super()._all_merges()
            merge_all(lake)
            return found

    for batch in range(3):
        lake.commit("q", batch, staged(lake, batch))
    assert numbers_in(Reader(lake.folder)) == [0, 1, 2]
    assert len(lake.files()) == 1


def test_files_that_two_mergers_chose_are_merged_once(lake: Lake) -> None:
    for batch in range(3):
        lake.commit("q", batch, staged(lake, batch))
    chosen = [groups(lake, KeepingSettings(), present_hour="", is_all=True) for _ in range(2)]
    outcomes = []
    for [group] in chosen:
        made = merged(lake.folder, group)
        outcomes.append(lake.merge(made, Path(made.staged).parent.name))
    assert outcomes == [True, False]
    assert numbers_in(lake) == [0, 1, 2]


def test_coordinates_are_kept_and_files_without_them_are_read_and_merged(lake: Lake) -> None:
    told = side_told("publishers", [random_place(random.Random(1))], 4_000)
    records = numbered("h1", [topic_record(b"t", START_US, **told)])
    batch = judged(batch_of(records), now_us=NOW_US, plausible=Plausible())
    lake.commit("q", 0, [file.name for file in written([batch], lake.folder)])
    lake.commit("q", 1, staged(lake, 7))
    old = lake.files()[1]
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(["coordinate", *WHERE_COLUMNS]), old)
    merge_all(lake)
    [path] = lake.files()
    rows = pq.read_table(path, partitioning=None).sort_by("sequence").to_pylist()
    assert [{name: row[name] for name in told} for row in rows] == [told, dict.fromkeys(told)]


def test_a_merge_that_crashes_before_its_rename_has_not_happened(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        lake.commit("q", batch, staged(lake, batch))
    monkeypatch.setattr(Lake, "_rename", _crash)
    with pytest.raises(CrashError):
        merge_all(lake, at_s=100.0)
    monkeypatch.undo()
    assert len(lake.files()) == 3
    assert lake.clean(before_s=200.0) == 0
    assert numbers_in(lake) == [0, 1, 2]
    merge_all(lake)
    assert len(lake.files()) == 1
    assert numbers_in(lake) == [0, 1, 2]


def _crash(*_: object) -> None:
    raise CrashError


def test_files_are_merged_when_there_are_enough_small_ones_or_the_hour_is_over(lake: Lake) -> None:
    for batch in range(3):
        lake.commit("q", batch, staged(lake, batch))
    lake.commit("q", 3, staged(lake, 3, at_us=START_US + HOUR_US) + staged(lake, 4, at_us=START_US + HOUR_US))
    settings = KeepingSettings(files_min=3)
    present = hour_folder(START_US + HOUR_US)
    assert [len(group) for group in groups(lake, settings, present_hour=present)] == [3]
    assert [len(group) for group in groups(lake, settings, present_hour=hour_folder(START_US))] == [3, 2]
    assert [len(group) for group in groups(lake, KeepingSettings(), present_hour=hour_folder(START_US))] == [
        2
    ]


def test_hours_that_are_too_old_are_deleted(lake: Lake) -> None:
    lake.commit("q", 0, staged(lake, 1) + staged(lake, 2, at_us=START_US + HOUR_US))
    assert lake.expire(hour_folder(START_US + HOUR_US)) == 1
    assert numbers_in(lake) == [2]
    assert lake.hours() == [hour_folder(START_US + HOUR_US)]


def test_staging_files_of_crashes_are_removed(lake: Lake) -> None:
    staged(lake, 1)
    assert list(lake.staging.rglob("*.parquet"))
    lake.clean(before_s=0.0)
    assert list(lake.staging.rglob("*.parquet"))
    lake.clean(before_s=4e9)
    assert not list(lake.staging.rglob("*.parquet"))


def test_a_batch_whose_files_were_removed_is_rejected_and_can_be_run_again(lake: Lake) -> None:
    """1. A machine sleeps between a batch's files and its commit; 2. when it wakes, cleaning comes first."""
    files = staged(lake, 1)
    lake.clean(before_s=4e9)
    with pytest.raises(PipelineError, match="restart the pipeline"):
        lake.commit("q", 0, files)
    assert not lake.is_finished("q", 0)
    lake.commit("q", 0, staged(lake, 1))
    assert numbers_in(lake) == [1]


def test_nothing_is_deleted_while_a_batch_is_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A hub whose clock is days late: its records are of an hour that is too old; 2. the hour's folder is made;
    3. retention comes before the file is renamed."""
    files, cleaners = staged(lake, 1), []
    whole_replace = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.suffix == ".parquet":
            cleaners.append(threading.Thread(target=lake.expire, args=("date=9",)))
            cleaners[0].start()
            cleaners[0].join(0.2)
        return whole_replace(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    lake.commit("q", 0, files)
    cleaners[0].join(20)
    assert lake.is_finished("q", 0)
    assert numbers_in(lake) == []


def test_committed_and_merged_files_leave_nothing_in_the_staging(lake: Lake) -> None:
    for batch in range(5):
        lake.commit("q", batch, staged(lake, batch) + staged(lake, 10 + batch, at_us=START_US + HOUR_US))
    merge_all(lake)
    assert list(lake.staging.iterdir()) == []


def test_a_batch_finished_after_a_crash_leaves_nothing_in_the_staging_either(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A file is renamed; 2. the process dies before it removes the folders; 3. the batch is run again."""
    monkeypatch.setattr(Path, "rmdir", _crash)
    with pytest.raises(CrashError):
        lake.commit("q", 0, staged(lake, 1))
    monkeypatch.undo()
    assert lake.is_finished("q", 0)
    assert list(lake.staging.iterdir()) == []
    assert numbers_in(lake) == [1]


def test_folders_of_crashes_are_removed_and_one_in_use_is_not(lake: Lake) -> None:
    [name] = staged(lake, 1)
    (lake.folder / name).unlink()
    old, new = lake.staging / Path(name).parts[1], lake.staging / "new"
    for path in (*old.rglob("*"), old, lake.staging):
        os.utime(path, (1_000, 1_000))
    # A writer has made the folder, and is about to make its file.
    (new / hour_folder(START_US)).mkdir(parents=True)
    for path in (new, *new.iterdir()):
        os.utime(path, (1_000, 1_000))
    lake.clean(before_s=2_000)
    assert list(lake.staging.iterdir()) == [new]
    assert (new / hour_folder(START_US)).is_dir()


def test_hours_without_files_are_removed_with_their_dates_once_they_are_too_old(lake: Lake) -> None:
    """1. Retention has deleted an hour's files; 2. the process dies before it removes the folders; 3. it goes on."""
    lake.commit("q", 0, staged(lake, 1))
    [path] = lake.files()
    path.unlink()
    assert lake.expire("date=9") == 0
    assert list(lake.records.iterdir()) == []


def test_an_unreadable_list_does_not_count_as_missing(lake: Lake) -> None:
    lake.commit("q", 0, staged(lake, 1))
    (lake.folder / "_batches" / "q.json").write_text("{")
    with pytest.raises(DamagedError, match=r"q\.json is damaged"):
        lake.is_finished("q", 0)
