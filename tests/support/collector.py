"""The garbage collector is spared what all tests share: modules, 11,000 items, what plugins keep.

A simulated run collects everything every so many steps, and on the heap of the whole suite each such collection takes
0.3 s of CPU instead of 0.1.
"""

from __future__ import annotations

import gc

import pytest

from equipoise.lab.task_pool import settle_collector

__all__ = ["SettledCollector"]


class SettledCollector:
    """Freezes what is there once all tests are collected, and again after a test that has thawed it."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        settle_collector()

    def pytest_runtest_setup(self) -> None:
        if not gc.get_freeze_count():
            settle_collector()
