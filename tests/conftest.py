"""How the tests are run: the same examples in every run, shared among workers by how long they take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.schedule import ByDuration, DurationKeeper

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]  # It ships no types.

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
    if config.getoption("--keep-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationKeeper())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByDuration | None:
    return ByDuration(config, log) if config.getoption("dist") == "loadgroup" else None
