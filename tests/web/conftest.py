"""What tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from web.browsing import Chromium, require_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """One browser for all tests of a module: starting one takes three seconds of CPU."""
    require_chromium()
    with Chromium() as found:
        yield found
