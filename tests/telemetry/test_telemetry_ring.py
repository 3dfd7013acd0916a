"""The ring: numbered without holes, bounded in time and bytes, read from anywhere."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.telemetry import Block, NameColumn, RecordKind, TelemetryRing, Values
from equipoise.telemetry.ring import BLOCK_BYTES, size_bytes_of
from telemetry.records import SECOND_US, hub_block, topic_block

LARGE = 1 << 30


def sequences(ring: TelemetryRing, start: int) -> list[int]:
    return [block.first + row for block, first in ring.read(start) for row in range(first, block.count)]


def block_of(count: int, time_us: int) -> Block:
    return topic_block([b"t%d" % i for i in range(count)], [1] * count, time_us=time_us)


def test_records_are_numbered_from_zero_without_holes() -> None:
    ring = TelemetryRing(7, retention_s=60, bytes_max=LARGE)
    for count in (3, 1, 2):
        ring.append(block_of(count, 0))
    assert (ring.oldest, ring.end, len(ring)) == (0, 6, 6)
    assert sequences(ring, 0) == [0, 1, 2, 3, 4, 5]


def test_reading_begins_inside_a_block() -> None:
    ring = TelemetryRing(7, retention_s=60, bytes_max=LARGE)
    ring.append(block_of(4, 0))
    ring.append(block_of(2, 0))
    assert sequences(ring, 3) == [3, 4, 5]
    assert sequences(ring, 6) == []


def test_an_empty_block_leaves_no_trace() -> None:
    ring = TelemetryRing(7, retention_s=60, bytes_max=LARGE)
    ring.append(block_of(0, 0))
    assert (len(ring), ring.bytes, list(ring.read(0))) == (0, 0, [])


def test_what_is_too_old_falls_out_and_the_oldest_left_is_known() -> None:
    ring = TelemetryRing(7, retention_s=10, bytes_max=LARGE)
    for second in range(30):
        ring.append(block_of(2, second * SECOND_US))
    # 19 to 29: nothing that is older than ten seconds.
    assert (ring.oldest, ring.end) == (2 * 19, 60)
    assert sequences(ring, 0) == list(range(38, 60))


def test_what_is_too_much_falls_out() -> None:
    ring = TelemetryRing(7, retention_s=1e6, bytes_max=50_000)
    for second in range(100):
        ring.append(block_of(100, second * SECOND_US))
        assert ring.bytes <= 50_000
    assert 0 < ring.oldest < ring.end == 10_000


def test_the_newest_block_stays_whatever_its_size() -> None:
    ring = TelemetryRing(7, retention_s=60, bytes_max=1)
    ring.append(block_of(50, 0))
    ring.append(block_of(60, 1))
    assert (ring.oldest, ring.end) == (50, 110)


def test_bytes_are_what_the_blocks_that_are_left_keep_alive() -> None:
    ring = TelemetryRing(7, retention_s=5, bytes_max=LARGE)
    for second in range(20):
        ring.append(block_of(second % 4, second * SECOND_US))
    blocks = [block for block, _ in ring.read(0)]
    alive = {id(column): size_bytes_of(column) for block in blocks for column in block.held}
    assert ring.bytes == len(blocks) * BLOCK_BYTES + sum(alive.values())


def test_a_column_that_blocks_share_counts_once_as_long_as_one_of_them_is_there() -> None:
    names = NameColumn.of([b"%d" % number for number in range(10_000)])
    ring = TelemetryRing(7, retention_s=5, bytes_max=LARGE)
    taken = []
    for second in range(20):
        shared = Block.of(
            RecordKind.TOPIC, 10_000, {"topic": names}, time_us=second * SECOND_US, window_us=SECOND_US
        )
        ring.append(shared)
        taken.append(ring.bytes)
    assert taken[-1] < taken[0] + 20 * 2 * BLOCK_BYTES
    for second in range(20, 40):
        ring.append(block_of(1, second * SECOND_US))
    assert ring.bytes < taken[0]


def test_a_ring_knows_the_columns_that_its_records_fill() -> None:
    ring = TelemetryRing(7, retention_s=2, bytes_max=LARGE)
    assert ring.filled == frozenset()
    ring.append(hub_block())
    assert ring.filled == {"cpu_ratio", "connections"}
    arrival: dict[str, Values] = {"topic": b"t", "messages": 1, "publisher_group": None}
    ring.append(Block.of(RecordKind.ARRIVAL, 1, arrival, time_us=0, window_us=0))
    assert ring.filled == {"cpu_ratio", "connections", "topic", "messages"}
    ring.append(hub_block(time_us=10 * SECOND_US))
    assert ring.filled == {"cpu_ratio", "connections"}, "what has fallen out fills nothing"


def test_a_clock_that_goes_back_loses_nothing() -> None:
    ring = TelemetryRing(7, retention_s=10, bytes_max=LARGE)
    for time_s in (100, 101, 50, 51):
        ring.append(hub_block(time_us=time_s * SECOND_US))
    assert sequences(ring, 0) == [0, 1, 2, 3]


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.integers(0, 9).map(lambda n: ("append", n)), st.integers(1, 12).map(lambda n: ("read", n))
        )
    ),
    bytes_max=st.integers(1, 20_000),
)
def test_any_pattern_of_reads_gives_each_record_once_and_tells_what_was_missed(
    steps: list[tuple[str, int]], bytes_max: int
) -> None:
    """A reader that takes `n` records at a time, whenever it likes, while others fall out."""
    ring = TelemetryRing(7, retention_s=1e6, bytes_max=bytes_max)
    seen: list[int] = []
    missed: list[int] = []
    at = 0
    for what, number in [*steps, ("read", 10**6)]:
        if what == "append":
            ring.append(block_of(number, 0))
            continue
        missed += range(at, max(at, ring.oldest))
        found = sequences(ring, at)[:number]
        seen += found
        at = found[-1] + 1 if found else max(at, ring.oldest)
    assert seen == sorted(set(seen))
    assert sorted(seen + missed) == list(range(ring.end))


def test_blocks_of_all_kinds_share_the_sequence() -> None:
    ring = TelemetryRing(7, retention_s=60, bytes_max=LARGE)
    ring.append(block_of(2, 0))
    ring.append(hub_block())
    assert [(block.kind, block.first) for block, _ in ring.read(0)] == [
        (RecordKind.TOPIC, 0),
        (RecordKind.HUB, 2),
    ]
