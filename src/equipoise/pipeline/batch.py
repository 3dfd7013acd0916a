"""A view from a DataFrame of records, in one go: for experiments and for looking back.

The same view as the live query makes of the same records, by `transforms`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from equipoise.pipeline.aggregate import STALE_S
from equipoise.pipeline.aggregate_locations import written_places
from equipoise.pipeline.client_locations import place_rows
from equipoise.pipeline.sliding_window import OVER_S, WindowedView
from equipoise.pipeline.transforms import hub_loads, records_at, topic_rates_by_hub, topic_totals
from equipoise.view.arrow_table import ViewTables

__all__ = ["view_at"]

_US = 1e6


def view_at(records: DataFrame, end_us: int, *, over_s: float = OVER_S) -> WindowedView:
    """Of valid records; the window ends at `end_us`, which is the time of the newest record in the live view.

    Of hubs it tells what they told themselves: nothing from the store.
    """
    windowed = records_at(records, end_us, over_s=over_s)
    by_hub = topic_rates_by_hub(windowed)
    is_fresh = (end_us - F.col("newest_us")) <= int(STALE_S * _US)
    loads = hub_loads(windowed)
    hubs = loads.withColumn("is_alive", is_fresh).drop("window_end_us", "newest_us").toArrow()
    at = hubs.schema.get_field_index("coordinate")
    places = written_places(place_rows(hubs.column("coordinate")))
    return WindowedView(
        end_us / _US,
        over_s,
        ViewTables(
            topic_totals(by_hub, loads).drop("window_end_us").toArrow(),
            hubs.set_column(at, "coordinate", places),
            by_hub.select("topic", "hub", "out_bytes_per_s").toArrow(),
        ),
    )
