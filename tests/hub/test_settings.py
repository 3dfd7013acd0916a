"""Settings from a file or the command line, and one clear line for each error."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from equipoise.access import Users
from equipoise.cli.hub import read_users
from equipoise.errors import SettingsError
from equipoise.hub import HubSettings, load_settings
from equipoise.hub.settings import parse_settings
from equipoise.hub.shell.descriptors import ensure_descriptors
from equipoise.hub.shell.server import check_exposure
from hub.world import users


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"nmae": "x"}, "unknown field `nmae`"),
        ({"name": "a b"}, "$.name"),
        ({"port": 70_000}, "$.port"),
        ({"port": "6399"}, "$.port"),
        ({"tls": {"port": 70_000}}, "$.tls.port"),
        ({"tls": {"port": 1}}, "tls.port needs tls.certificate and tls.key"),
        ({"tls": {"client_certificate_is_required": True}}, "needs tls.client_ca"),
        ({"limits": {"payload_bytes_max": 9 << 20}}, "$.limits.payload_bytes_max"),
        ({"limits": {"args_max": 10_000}}, "$.limits.args_max"),
        ({"limits": {"unauthenticated_timeout_s": float("inf")}}, "$.limits.unauthenticated_timeout_s"),
        ({"limits": {"output_soft_s": float("nan")}}, "$.limits.output_soft_s"),
        ({"limits": {"topic_idle_s": 0}}, "$.limits.topic_idle_s"),
        ({"limits": {"keepalive_s": 40_000}}, "$.limits.keepalive_s"),
        ({"limits": {"output_soft_bytes": 9 << 20}}, "must not exceed limits.output_bytes_max"),
    ],
)
def test_an_error_names_the_setting(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(values)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_text('name = "a"\nport = 1\n[tls]\ncertificate = "c"\nkey = "k"\n')
    settings = load_settings(path, port=2, host=None, tls={"port": 3, "key": None})
    assert (settings.name, settings.port, settings.host) == ("a", 2, "127.0.0.1")
    assert (settings.tls.port, settings.tls.certificate, settings.tls.key) == (3, "c", "k")


@pytest.mark.parametrize("text", ["tls = 5", "tls = 'x'", "[tls]\nnope = 1"])
def test_a_broken_table_stays_broken_under_options(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hub.toml"
    path.write_text(text)
    with pytest.raises(SettingsError):
        load_settings(path, tls={"port": 0})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "hub.example", ""])
def test_a_hub_without_users_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(SettingsError, match="refusing to listen"):
        check_exposure(HubSettings(host=host), Users.open())
    check_exposure(HubSettings(host=host, insecure=True), Users.open())
    check_exposure(HubSettings(host=host), users(alice=""))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_users(host: str) -> None:
    check_exposure(HubSettings(host=host), Users.open())


@pytest.mark.parametrize("content", [b"[users.alice]\nsecret = 'plain'\n", b"\xff\xfe", b"[users", None])
def test_a_users_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "users.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"users file|user 'alice'"):
        read_users(HubSettings(users=str(path)))


@pytest.mark.parametrize("limits", [(100, 50_000), (100, 5_000), (20_000, 20_000)])
def test_the_descriptor_limit_is_raised_as_far_as_needed_and_allowed(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    set_to = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: set_to.append(both))
    fitting = ensure_descriptors(10_000)
    soft, hard = set_to[-1]
    assert hard == limits[1]
    assert soft == max(limits[0], min(10_128, hard))
    assert fitting == min(10_000, soft - 128)
