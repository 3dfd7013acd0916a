"""Spark for tests: one session for all tests of a process, and the reason where there can be none."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from equipoise.errors import PipelineError
from equipoise.pipeline.spark.spark_home import require_spark
from support.cache import kept_folder


@functools.cache
def missing() -> str | None:
    """Why there can be no Spark here; None if there can."""
    try:
        require_spark()
    except PipelineError as problem:
        return str(problem)
    return None


def need_spark() -> None:
    """Skip the test, with the reason, where Spark cannot be started."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


def gateway_port() -> int:
    """Where the JVM of this process listens to py4j, whose connections end with their threads and are not closed; 0
    if there is none."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = None if context is None else context._gateway
    return 0 if gateway is None else int(gateway.gateway_parameters.port)


def spark_cache() -> Path:
    """Kept from one run of the tests to the next: a class archive saves half of the start."""
    return kept_folder()
