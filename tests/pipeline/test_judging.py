"""Every kind of rejected record, and that valid ones are accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.pipeline.samples import WHERE_COLUMNS
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.validation import conformed, judged
from equipoise.telemetry import arrow_schema
from pipeline.records import (
    SECOND_US,
    START_US,
    Record,
    batch_of,
    hub_record,
    numbered,
    random_world,
    topic_record,
)

NOW_US = START_US + SECOND_US


def reasons_of(records: list[Record], **options: Any) -> list[str | None]:
    batch = judged(batch_of(records), now_us=NOW_US, plausible=Plausible(), **options)
    found: list[str | None] = batch.column("rejected").to_pylist()
    return found


GOOD = topic_record(b"t", START_US, publications=5)
GOOD_HUB = hub_record(START_US)
ARRIVAL = {
    "kind": "arrival",
    "time": START_US,
    "window_us": 0,
    "topic": b"t",
    "publisher": -17,
    "size_bytes": 3,
}
PLACE = Coordinate.unknown(CoordinateSettings())
SIDE = {
    "publishers_at": PLACE.to_bytes(),
    "publishers_located": 3,
    "publishers_deviation_us": 10,
    "publishers_leg_us_max": 20,
}
FAR = Coordinate((0.0,) * 7 + (101.0,), 0.5, 0.0)


def at(place: Coordinate, **changes: float) -> bytes:
    return replace(place, **changes).to_bytes()  # type: ignore[arg-type]  # All of them are numbers.


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (GOOD, None),
        (GOOD | SIDE, None),
        (GOOD | SIDE | {"publishers_leg_us_max": None}, None),
        (GOOD | {"subscribers_located": 0, "subscribers_deviation_us": 0}, None),
        (GOOD | SIDE | {"publishers_at": b"short"}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_at": b""}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_at": PLACE.to_bytes() * 2}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_at": None}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_located": None}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_located": 0}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_deviation_us": None}, Rejection.MALFORMED),
        (GOOD | SIDE | {"publishers_at": at(PLACE, height_s=float("nan"))}, Rejection.NOT_FINITE),
        (GOOD | SIDE | {"publishers_at": at(PLACE, adjustment_s=float("inf"))}, Rejection.NOT_FINITE),
        (GOOD | SIDE | {"publishers_at": at(PLACE, height_s=-1e-9)}, Rejection.NEGATIVE),
        (GOOD | SIDE | {"publishers_at": at(PLACE, error=-0.1)}, Rejection.NEGATIVE),
        (GOOD | SIDE | {"publishers_at": at(PLACE, adjustment_s=-0.1)}, None),
        (GOOD | SIDE | {"publishers_at": FAR.to_bytes()}, Rejection.IMPOSSIBLE),
        (GOOD | SIDE | {"publishers_located": -3}, Rejection.NEGATIVE),
        (GOOD | SIDE | {"publishers_located": 1 << 60}, Rejection.IMPOSSIBLE),
        (GOOD | SIDE | {"publishers_deviation_us": -1}, Rejection.NEGATIVE),
        (GOOD | SIDE | {"publishers_deviation_us": 1 << 40}, Rejection.IMPOSSIBLE),
        (GOOD | SIDE | {"publishers_leg_us_max": 1 << 40}, Rejection.IMPOSSIBLE),
        (GOOD_HUB | {"coordinate": PLACE.to_bytes()}, None),
        (GOOD_HUB | {"coordinate": b"x"}, Rejection.MALFORMED),
        (GOOD_HUB | {"coordinate": at(PLACE, error=float("nan"))}, Rejection.NOT_FINITE),
        (GOOD_HUB | {"coordinate": FAR.to_bytes()}, Rejection.IMPOSSIBLE),
        (GOOD_HUB, None),
        (ARRIVAL, None),
        (GOOD | {"kind": "weather"}, Rejection.MALFORMED),
        (GOOD | {"kind": None}, Rejection.MALFORMED),
        (GOOD | {"topic": None}, Rejection.MALFORMED),
        (GOOD | {"time": None}, Rejection.MALFORMED),
        (GOOD | {"publications": None}, Rejection.MALFORMED),
        (GOOD_HUB | {"cpu_ratio": None}, Rejection.MALFORMED),
        (GOOD | {"hub": "another"}, Rejection.MISATTRIBUTED),
        (GOOD | {"incarnation": 2}, Rejection.MISATTRIBUTED),
        (GOOD_HUB | {"cpu_ratio": float("nan")}, Rejection.NOT_FINITE),
        (GOOD_HUB | {"out_bytes_per_s": float("inf")}, Rejection.NOT_FINITE),
        (GOOD_HUB | {"out_bytes_per_s_max": float("-inf")}, Rejection.NOT_FINITE),
        (GOOD_HUB | {"deliveries_per_s_max": 1e12}, Rejection.IMPOSSIBLE),
        (GOOD | {"publications": -1}, Rejection.NEGATIVE),
        (GOOD | {"throttle_us_max": -1}, Rejection.NEGATIVE),
        (GOOD_HUB | {"cpu_ratio": -0.5}, Rejection.NEGATIVE),
        (GOOD | {"deliveries": 1 << 60}, Rejection.IMPOSSIBLE),
        (GOOD | {"bytes_out": 1 << 60}, Rejection.IMPOSSIBLE),
        (GOOD | {"window_us": 1}, Rejection.IMPOSSIBLE),
        (GOOD | {"window_us": 0}, Rejection.IMPOSSIBLE),
        (GOOD | {"window_us": 3600 * SECOND_US}, Rejection.IMPOSSIBLE),
        (GOOD_HUB | {"cpu_ratio": 1e6}, Rejection.IMPOSSIBLE),
        (GOOD | {"time": NOW_US + 3 * SECOND_US}, Rejection.FUTURE),
        (GOOD | {"time": NOW_US + SECOND_US}, None),
    ],
)
def test_a_record_counts_unless_it_is_invalid(record: Record, reason: str | None) -> None:
    [alone] = numbered("h1", [record])
    assert reasons_of([alone], hub="h1", incarnation=1) == [reason]
    # Whatever stands beside it.
    [first, _, last] = numbered("h1", [GOOD, GOOD, GOOD_HUB])
    among = [first, alone | {"sequence": 1}, last]
    assert reasons_of(among, hub="h1", incarnation=1) == [None, reason, None]


def test_a_repeated_record_or_one_out_of_order_is_a_duplicate() -> None:
    records = numbered("h1", [GOOD] * 5)
    again = [records[0], records[1], records[1], records[3], records[2], records[4]]
    assert reasons_of(again, hub="h1", incarnation=1) == [
        None,
        None,
        Rejection.DUPLICATE,
        None,
        Rejection.DUPLICATE,
        None,
    ]


def test_random_records_all_count() -> None:
    for seed in range(20):
        for hub, records in random_world(seed).items():
            found = judged(
                batch_of(records),
                now_us=max(record["time"] for record in records),
                plausible=Plausible(),
                hub=hub,
                incarnation=1,
            )
            assert found.column("rejected").null_count == len(records)


def test_a_newer_hub_may_have_more_columns_and_an_older_one_less() -> None:
    batch = batch_of(numbered("h1", [GOOD]))
    newer = batch.append_column("weather", pa.array(["fine"]))
    assert conformed(newer).schema == arrow_schema()
    older = batch.drop_columns(["relays", "drops", "coordinate", *WHERE_COLUMNS])
    assert conformed(older).column("drops").to_pylist() == [None]
    found = judged(older, now_us=NOW_US, plausible=Plausible())
    assert found.column("rejected").to_pylist() == [None]


def test_columns_of_another_type_are_converted_or_rejected() -> None:
    batch = batch_of(numbered("h1", [GOOD]))
    at = batch.schema.get_field_index("publications")
    narrow = batch.set_column(at, "publications", batch.column("publications").cast(pa.int32()))
    assert conformed(narrow).column("publications").to_pylist() == [5]
    nonsense = batch.set_column(at, "publications", pa.array(["many"]))
    with pytest.raises(pa.ArrowInvalid):
        conformed(nonsense)
