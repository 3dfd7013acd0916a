"""What an operator may set on a hub: each value with its unit, its bounds and the reason for its default.

Read once at start, from a TOML file whose tables are the fields below; unknown names are errors. The reference
page is generated from the descriptions.
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.telemetry.metrics_settings import MetricsSettings
from equipoise.hub.telemetry.telemetry_settings import TelemetrySettings
from equipoise.resp import RequestLimits

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400.0
# What the kernel takes; above it no peer would be probed at all.
KEEPALIVE_CEILING_S = 32_767
PAYLOAD_BYTES_CEILING = 8 * MIB
# The reader hands chunks with counts of five digits to the exact parser; a higher ceiling would slow it down.
ARGS_CEILING = 9_999
# A frame between hubs: up to 1,000 messages and what is said about them.
FRAME_ARGS = 1_024


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on what one client, and all of them, may take."""

    payload_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            le=PAYLOAD_BYTES_CEILING,
            description="Longest argument, so longest message. 1 MiB as in NATS: a larger one blocks a core "
            "for too long at high fan-out. Hard ceiling 8 MiB.",
        ),
    ] = MIB
    args_max: Annotated[
        int,
        Meta(
            ge=16,
            le=ARGS_CEILING,
            description="Arguments per command. Enough for a thousand names in one SUBSCRIBE; nothing is "
            "allocated from an announced count (CVE-2021-32675).",
        ),
    ] = 1_024
    header_bytes_max: Annotated[
        int,
        Meta(ge=8, le=64, description="Length of a count or length line. Nothing valid has over 12 bytes."),
    ] = 32
    inline_bytes_max: Annotated[
        int,
        Meta(ge=64, le=64 * KIB, description="A command typed as a plain line; people type less than this."),
    ] = 4 * KIB
    topic_bytes_max: Annotated[
        int, Meta(ge=16, le=64 * KIB, description="Length of a topic's name; names are kept for long.")
    ] = 4 * KIB
    input_slack_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="An unfinished request may hold 2 x payload_bytes_max plus this: a message in flight, "
            "the next one behind it, and their headers.",
        ),
    ] = 64 * KIB
    unauthenticated_args_max: Annotated[
        int, Meta(ge=2, le=64, description="Arguments before AUTH: HELLO with AUTH and SETNAME has seven.")
    ] = 10
    unauthenticated_payload_bytes_max: Annotated[
        int, Meta(ge=64, le=64 * KIB, description="Argument length before AUTH; tokens are long, not longer.")
    ] = 4 * KIB
    unauthenticated_input_bytes_max: Annotated[
        int, Meta(ge=KIB, description="All that may be sent before AUTH, so that a stranger costs little.")
    ] = 64 * KIB
    unauthenticated_output_bytes_max: Annotated[
        int,
        Meta(ge=KIB, description="All that is answered before AUTH: errors could pile up (CVE-2025-21605)."),
    ] = 16 * KIB
    unauthenticated_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time to authenticate in, as in NATS; a stranger holds a slot no longer.",
        ),
    ] = 2.0
    login_check_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time for the hub to check a login, behind others who came before: 500 users that come "
            "back at once take 13 s. The client's own time stands still meanwhile.",
        ),
    ] = 20.0
    authentications_max: Annotated[
        int,
        Meta(ge=1, description="Secrets checked at once; each takes a thread and 16 MiB for some 50 ms."),
    ] = 2
    output_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB, description="Unsent output at which a client is cut at once: seconds of a hot topic."
        ),
    ] = 8 * MIB
    output_soft_bytes: Annotated[
        int, Meta(ge=64 * KIB, description="Unsent output a client may have for a while, but not for long.")
    ] = 2 * MIB
    output_soft_s: Annotated[
        float,
        Meta(
            gt=0, le=DAY_S, description="How long: longer than a pause of garbage collection or a hand-off."
        ),
    ] = 10.0
    output_total_share: Annotated[
        float,
        Meta(
            gt=0,
            le=0.9,
            description="Unsent output of all clients together, as a share of the machine's memory; beyond "
            "it the furthest behind is cut.",
        ),
    ] = 0.25
    connections_max: Annotated[
        int, Meta(ge=1, description="Open connections; each takes a file descriptor and some 3 kB.")
    ] = 10_000
    connections_per_address_max: Annotated[
        int,
        Meta(ge=1, description="Connections from one address other than loopback; a NAT has more than one."),
    ] = 512
    accepts_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections served anew per second from other addresses than loopback; more wait "
            "their turn, so that a herd coming back does not starve those who are here.",
        ),
    ] = 200
    loopback_is_exempt: Annotated[
        bool, Meta(description="Whether loopback is free of the two limits above; tests say no.")
    ] = True
    subscriptions_max: Annotated[
        int, Meta(ge=1, description="Subscriptions of one connection, by name and by pattern together.")
    ] = 10_000
    patterns_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Patterns among them. A topic that is new is matched with every pattern whose literal "
            "beginning it has, at a microsecond or two for each.",
        ),
    ] = 1_000
    pattern_bytes_max: Annotated[
        int, Meta(ge=1, le=4 * KIB, description="Length of a pattern: matching costs time in each new topic.")
    ] = 256
    pattern_wildcards_max: Annotated[
        int, Meta(ge=1, le=256, description="Wildcards in a pattern; runs of * count once.")
    ] = 8
    topics_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics known at once; the longest unused without subscribers is forgotten first. "
            "At some 500 B each, 100 MB.",
        ),
    ] = 200_000
    topic_idle_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="A topic without subscribers and messages is forgotten after this; long enough that "
            "a subscriber that reconnects still learns exactly what it missed.",
        ),
    ] = 300.0
    keepalive_s: Annotated[
        int,
        Meta(
            ge=1,
            le=KEEPALIVE_CEILING_S,
            description="Silence after which the kernel probes a peer, and the time between probes; two "
            "unanswered end the connection.",
        ),
    ] = 30

    @property
    def input_bytes_max(self) -> int:
        return 2 * self.payload_bytes_max + self.input_slack_bytes

    def of_requests(self, *, is_authenticated: bool) -> RequestLimits:
        if is_authenticated:
            args_max, payload_bytes_max = self.args_max, self.payload_bytes_max
        else:
            args_max = self.unauthenticated_args_max
            payload_bytes_max = min(self.unauthenticated_payload_bytes_max, self.payload_bytes_max)
        return RequestLimits(
            args_max=args_max,
            payload_bytes_max=payload_bytes_max,
            header_bytes_max=self.header_bytes_max,
            inline_bytes_max=self.inline_bytes_max,
            is_authenticated=is_authenticated,
        )

    def of_links(self) -> RequestLimits:
        """For other hubs: a frame carries up to a thousand messages, whatever clients may send in one command."""
        requests = self.of_requests(is_authenticated=True)
        return dataclasses.replace(requests, args_max=max(self.args_max, FRAME_ARGS))


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
