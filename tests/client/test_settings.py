"""Client settings: bounds, combinations, and errors that name the setting."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

import equipoise
from equipoise.client.settings import ClientSettings, make_settings
from equipoise.errors import AddressError, MisuseError, SettingsError
from support.processes import ROOT


def test_overrides_replace_fields_of_the_given_settings() -> None:
    base = ClientSettings(name="probe", ping_interval_s=7)
    assert make_settings(base, {"ping_interval_s": 3}) == ClientSettings(name="probe", ping_interval_s=3)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"pings": 3}, "there is no client setting 'pings'; there are: name,"),
        ({"ping_interval_s": 0}, "`$.ping_interval_s`"),
        ({"in_flight_messages_max": 0}, "`$.in_flight_messages_max`"),
        ({"in_flight_messages_max": "9"}, "`$.in_flight_messages_max`"),
        ({"name": "two words"}, "`$.name`"),
        ({"group": "x" * 257}, "`$.group`"),
        ({"group": "é" * 129}, "group must not exceed 256 bytes"),
        ({"payload_bytes_max": 2**25}, "payload_bytes_max must not exceed in_flight_bytes_max"),
        ({"reconnect_first_s": 9}, "reconnect_first_s must not exceed reconnect_max_s"),
        ({"tls_cert_file": "x"}, "go together"),
        ({"coordinate_report_interval_s": 15}, "must be more than 2 times coordinate_report_interval_s"),
        ({"coordinate_gateway_timeout_s": 10}, "must be more than 2 times coordinate_report_interval_s"),
    ],
)
def test_an_invalid_setting_is_rejected_by_name(overrides: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        equipoise.connect("equipoise://hub", **overrides)
    assert complaint in str(caught.value)


def test_every_setting_documents_the_reason_of_its_default() -> None:
    schema = msgspec.json.schema(ClientSettings)["$defs"]["ClientSettings"]["properties"]
    assert [name for name, field in schema.items() if not field.get("description")] == []


def test_connect_rejects_an_invalid_url_at_once() -> None:
    with pytest.raises(AddressError):
        equipoise.connect("nonsense")


def test_a_missing_tls_file_raises_at_once() -> None:
    with pytest.raises(SettingsError, match="check the tls_"):
        equipoise.connect("equipoises://hub", tls_ca_file="/nowhere/ca.pem")


def test_a_tls_context_for_an_unencrypted_url_is_rejected() -> None:
    import ssl

    with pytest.raises(MisuseError, match="equipoises://"):
        equipoise.connect("equipoise://hub", tls=ssl.create_default_context())


def test_the_how_to_page_has_the_current_defaults() -> None:
    page = (ROOT / "docs" / "howto" / "use-the-python-client.md").read_text()
    is_setting = {field.name: field.default for field in msgspec.structs.fields(ClientSettings)}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", page, re.MULTILINE)
    stated = {}
    for names, values in rows:
        for name, value in zip(re.findall(r"\w+", names), values.split(", "), strict=False):
            if name in is_setting:
                stated[name] = value.strip()
    expected = {
        "name": "none",
        "request_timeout_s": "10",
        "first_connect_timeout_s": "0",
        "queue_messages_max": "65,536",
        "queue_bytes_max": "64 MiB",
        "payload_bytes_max": "1 MiB",
        "coordinate_enabled": "yes",
    }
    assert stated == expected
    assert [is_setting[name] for name in expected] == ["", 10, 0, 65_536, 64 * 2**20, 2**20, True]
