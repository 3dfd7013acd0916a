"""What a process may tell others of where it listens."""

from __future__ import annotations

import pytest

from equipoise.errors import SettingsError
from equipoise.hub import HubSettings
from equipoise.hub.membership.process import check_reachable
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.model.address import check_advertisable, joined, split_address


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "0", "*", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"])
def test_every_address_is_one_to_listen_on_and_none_to_tell(host: str) -> None:
    with pytest.raises(SettingsError, match=r"with --advertise HOST$"):
        check_advertisable(host, who="controller", option="--advertise HOST")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.0.0.5", "db7", "db7.example", "localhost"])
def test_an_address_that_somebody_can_dial_may_be_told(host: str) -> None:
    check_advertisable(host, who="controller", option="--advertise HOST")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db7:6397", ("db7", 6397)),
        ("[::1]:80", ("::1", 80)),
        ("::1:80", ("::1", 80)),
        ("db7:0", ("db7", 0)),
        ("db7", None),
        (":80", None),
        ("db7:", None),
        ("db7:65536", None),
        ("db7:٣", None),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, parts: tuple[str, int] | None) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("address", [("db7", 6397), ("::1", 80), ("10.0.0.5", 1)])
def test_what_is_joined_can_be_split_again(address: tuple[str, int]) -> None:
    assert split_address(joined(*address)) == address


@pytest.mark.parametrize(
    ("host", "advertise", "words"),
    [
        ("0.0.0.0", "", "with --advertise HOST:PORT"),
        ("0.0.0.0", "0.0.0.0:6399", "others cannot connect to 0.0.0.0"),
        ("0.0.0.0", "db7", "give HOST:PORT, such as"),
        ("0.0.0.0", "db7:0", "give HOST:PORT, such as"),
    ],
)
def test_a_hub_that_others_cannot_find_says_what_to_give(host: str, advertise: str, words: str) -> None:
    settings = HubSettings(host=host, membership=MembershipSettings(advertise=advertise))
    with pytest.raises(SettingsError, match=words):
        check_reachable(settings)
