"""Fixtures of all tests with several hubs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hubs warn about each client they cut and each loss of the store: here that is no news."""
    logger = logging.getLogger("equipoise")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)
