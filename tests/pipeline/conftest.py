"""One session of Spark's for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipoise.pipeline.settings import SessionSettings
from equipoise.pipeline.spark.session import SparkDriver
from support.spark import need_spark, spark_cache


@pytest.fixture(scope="session")
def driver() -> Iterator[SparkDriver]:
    need_spark()
    found = SparkDriver.start(SessionSettings(master="local[2]", cache=spark_cache()))
    yield found
    found.stop()
