"""How the tests are run: the same examples in every run, shared among workers by how long they take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.collector import SettledCollector
from support.cost import CostTable
from support.leaks import LeakCheck
from support.schedule import ByDuration, DurationKeeper
from support.sources import tree_of
from support.spark import gateway_port, need_spark, spark_cache

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]  # It ships no types.

    from equipoise.pipeline.spark.session import SparkDriver

# A change is judged by the change, not by luck. `HYPOTHESIS_PROFILE=explore make test` draws new examples. No example
# has a deadline of its own: on a busy machine it would be the machine that is judged. Each test has a time-out.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-durations", action="store_true", help="write how long modules take to tests/durations.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeakCheck())
    config.pluginmanager.register(CostTable())
    config.pluginmanager.register(SettledCollector())
    if config.getoption("--keep-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationKeeper())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByDuration | None:
    return ByDuration(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(scope="module", autouse=True)
def _dropped_trees() -> Iterator[None]:
    """Two million nodes: every later garbage collection of this process would visit them."""
    yield
    tree_of.cache_clear()


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Iterator[SparkDriver]:
    """One session of Spark's for all tests of this process that need one."""
    from equipoise.pipeline.settings import SessionSettings
    from equipoise.pipeline.spark.session import SparkDriver

    need_spark()
    found = SparkDriver.start(SessionSettings(master="local[2]", cache=spark_cache()))
    # Py4j closes no connection of a thread that has ended.
    words = f"ignore:unclosed <socket.*raddr=.'127.0.0.1', {gateway_port()}.:ResourceWarning"
    request.config.addinivalue_line("filterwarnings", words)
    yield found
    found.stop()
