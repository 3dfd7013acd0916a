"""Settings of a hub, each with unit, bounds and the reason for its default.

Read once at start, from a TOML file whose tables are the fields below; unknown names are errors. The reference
page is generated from the descriptions.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from equipoise.content.balancing.settings import BalancingSettings
from equipoise.errors import SettingsError
from equipoise.hub.client_limits import Limits
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.telemetry.settings import MetricsSettings, TelemetrySettings
from equipoise.model.renamed_settings import HUB_SETTINGS, refuse_renamed

__all__ = ["HubSettings", "Limits", "Tls", "load_settings", "parse_settings"]


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encrypted connections. Off unless a port is given."""

    port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(description="Port for TLS; 0 takes a free one. None: no TLS."),
    ] = None
    certificate: Annotated[str, Meta(description="The hub's certificate chain, PEM.")] = ""
    key: Annotated[str, Meta(description="Private key of the certificate, PEM.")] = ""
    client_ca: Annotated[
        str,
        Meta(
            description="CA whose client certificates are accepted. A user that lists the certificate's "
            "common name is authenticated without a secret."
        ),
    ] = ""
    client_certificate_is_required: Annotated[
        bool, Meta(description="Whether a client without a certificate is refused during the handshake.")
    ] = False


class HubSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hub: one process, one core."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,64}$", description="Unique in the cluster; used in logs and metrics."
        ),
    ] = "hub"
    host: Annotated[
        str,
        Meta(description="Address to listen on. Any address but loopback needs users or `insecure`."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port; 0 takes a free one.")] = 6_399
    users: Annotated[
        str,
        Meta(description="Users file, read again on SIGHUP. None: every client on loopback has full access."),
    ] = ""
    insecure: Annotated[
        bool,
        Meta(
            description="Listen on other addresses than loopback without users. Every client has full access."
        ),
    ] = False
    limits: Limits = Limits()
    tls: Tls = Tls()
    cluster: ClusterSettings = ClusterSettings()
    content: BalancingSettings = BalancingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    metrics: MetricsSettings = MetricsSettings()
    membership: MembershipSettings = MembershipSettings()
    coordinates: CoordinatesSettings = CoordinatesSettings()


def load_settings(path: Path | None, **overrides: Any) -> HubSettings:
    """The file's settings, overridden by those of the command line. Raises SettingsError with the reason."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except OSError as error:
            raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} is not valid TOML: {error}") from error
    for name, value in overrides.items():
        if value is None:
            continue
        if not isinstance(value, dict):
            values[name] = value
        elif isinstance(table := values.setdefault(name, {}), dict):
            # A value that should be a table and is not stays as it is: the conversion below rejects it.
            table.update((key, item) for key, item in value.items() if item is not None)
    return parse_settings(values)


def parse_settings(values: dict[str, Any]) -> HubSettings:
    refuse_renamed(values, HUB_SETTINGS)
    try:
        settings = msgspec.convert(values, HubSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error}") from error
    limits = settings.limits
    if limits.output_soft_bytes > limits.output_bytes_max:
        raise SettingsError("settings: limits.output_soft_bytes must not exceed limits.output_bytes_max")
    if settings.tls.port is not None and not (settings.tls.certificate and settings.tls.key):
        raise SettingsError("settings: tls.port needs tls.certificate and tls.key")
    if settings.tls.client_certificate_is_required and not settings.tls.client_ca:
        raise SettingsError("settings: tls.client_certificate_is_required needs tls.client_ca")
    return settings
