"""Pages of the documentation whose blocks start Spark work as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.page_play import play_page, played_pages
from docs.playing import Reader

pytestmark = [
    pytest.mark.needs_java,
    pytest.mark.needs_redis,
    pytest.mark.needs_spark,
    # A page may start Spark twice, with a machine's worth of other tests beside it at worst.
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("up"),
]


@pytest.mark.parametrize("page", played_pages(has_spark=True))
def test_a_page_with_spark_works_as_written(page: str, tmp_path: Path) -> None:
    def refuse() -> Reader:
        raise AssertionError("a page with Spark starts its own system")

    play_page(page, tmp_path, refuse)
