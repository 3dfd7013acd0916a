"""A request that is signed with the token proves it without showing it, to one address and for a while."""

from __future__ import annotations

import pytest

from equipoise.access.signed_requests import HOLDS_S, SCHEME, is_signed, signed

TOKEN, ADDRESS, PATH, NOW = "a long token", "controller:6398", "/api/topics/t", 1_800_000_000.0
HEADER = signed(TOKEN, ADDRESS, PATH, NOW)


def is_good(header: str = HEADER, **other: object) -> bool:
    return is_signed(header, **{"token": TOKEN, "address": ADDRESS, "path": PATH, "time_s": NOW, **other})  # type: ignore[arg-type]


def test_the_token_is_proved_and_not_shown() -> None:
    assert is_good()
    assert TOKEN not in HEADER
    assert is_good(time_s=NOW + HOLDS_S - 1)
    assert is_good(address=ADDRESS.upper())


@pytest.mark.parametrize(
    "other",
    [
        {"token": "another"},
        # What a server that poses as the controller was sent is of no use at the controller.
        {"address": "elsewhere:6398"},
        {"path": "/api/topics/u"},
        {"time_s": NOW + HOLDS_S + 1},
        {"time_s": NOW - HOLDS_S - 1},
        {"header": HEADER.replace(SCHEME, "Bearer")},
        {"header": HEADER[:-1]},
        {"header": f"{SCHEME} 18\u0660:00"},
        {"header": f"{SCHEME} {'9' * 400}:00"},
        {"header": ""},
        {"token": "", "header": signed("", ADDRESS, PATH, NOW)},
    ],
)
def test_anything_else_is_refused(other: dict[str, object]) -> None:
    assert not is_good(**other)  # type: ignore[arg-type]
