"""What an operator may set on a hub: each value with its unit, its bounds and the reason for its default.

Read once at start, from a TOML file whose tables are the fields below; unknown names are errors. The reference
page is generated from the descriptions.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError
from equipoise.hub.client_limits import KIB, MIB, Limits
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.telemetry.metrics_settings import MetricsSettings
from equipoise.hub.telemetry.telemetry_settings import TelemetrySettings

__all__ = ["KIB", "MIB", "ClusterSettings", "HubSettings", "Limits", "Tls", "load_settings", "parse_settings"]


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encrypted connections. Off unless a port is given."""

    port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(description="Port for TLS; 0 takes a free one, nothing means no TLS."),
    ] = None
    certificate: Annotated[str, Meta(description="The hub's certificate chain, PEM.")] = ""
    key: Annotated[str, Meta(description="The key of the certificate, PEM.")] = ""
    client_ca: Annotated[
        str,
        Meta(
            description="Authority whose client certificates are accepted. A user listed with the "
            "certificate's common name is then authenticated without a secret."
        ),
    ] = ""
    client_certificate_is_required: Annotated[
        bool, Meta(description="Whether a client without a certificate is refused in the handshake.")
    ] = False


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """This hub among others. Hubs of one system need the same `limits.payload_bytes_max`."""

    link_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="What is kept for another hub until it has it: seconds of a full network while that hub "
            "pauses or is cut off. Beyond it all of it is given up, and both hubs begin anew.",
        ),
    ] = 64 * MIB
    held_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Messages held while topics change hubs, all together; a move takes two round trips. "
            "Beyond it publishers are told to try again.",
        ),
    ] = 32 * MIB
    moves_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics that are on their way from this hub to their new homes at once; when many leave "
            "together, the others go on here until it is their turn.",
        ),
    ] = 16
    handover_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A hub that is alive and has not answered the offer of a topic for this long is asked again; "
            "the topic goes on here meanwhile.",
        ),
    ] = 10.0
    unwanted_s: Annotated[
        float,
        Meta(
            gt=0,
            description="How often streams and patterns that no client here wants any more are left; a client "
            "that reconnects sooner finds its stream still here.",
        ),
    ] = 10.0
    acknowledge_s: Annotated[
        float, Meta(gt=0, description="How long another hub keeps what this one has dealt with, at most.")
    ] = 0.1
    silence_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A link's connection on which something waits to be acknowledged is given up after this "
            "much silence; below the store's session time-out, so that a cut is not taken for a death.",
        ),
    ] = 3.0
    redial_s: Annotated[
        float, Meta(gt=0, description="Longest pause between two attempts to reach another hub.")
    ] = 1.0
    telling: Annotated[
        Literal["eager", "lazy"],
        Meta(
            description="When smart subscribers are told that their topic has moved: at once, or with the next "
            "message of the topic, so that topics that nobody uses move nobody."
        ),
    ] = "eager"
    told_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Subscribers told in a second that their topics have moved: each comes to the new home and "
            "subscribes, which takes that some 50 us.",
        ),
    ] = 1_000


class HubSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hub: one process, one core."""

    name: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$", description="Unique in the system; in logs and metrics.")
    ] = "hub"
    host: Annotated[
        str,
        Meta(description="Address to listen on. Anything but loopback needs users or `insecure`."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port; 0 takes a free one.")] = 6_399
    users: Annotated[
        str, Meta(description="File of users, read again on SIGHUP. None: everybody on loopback may do all.")
    ] = ""
    insecure: Annotated[
        bool, Meta(description="Listen beyond loopback without users. Everybody there may do everything.")
    ] = False
    limits: Limits = Limits()
    tls: Tls = Tls()
    cluster: ClusterSettings = ClusterSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    metrics: MetricsSettings = MetricsSettings()
    membership: MembershipSettings = MembershipSettings()
    coordinates: CoordinatesSettings = CoordinatesSettings()


def load_settings(path: Path | None, **overrides: Any) -> HubSettings:
    """The file's settings with the command line's on top. Raises SettingsError that says what to mend."""
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
            # What is no table in the file stays as it is, to be complained about.
            table.update((key, item) for key, item in value.items() if item is not None)
    return parse_settings(values)


def parse_settings(values: dict[str, Any]) -> HubSettings:
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
