"""What tests of whole systems share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.up_world import Up, require_java


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A system that is started by the test, and has ended after it."""
    require_java()
    made = Up(tmp_path)
    yield made
    made.stop()
