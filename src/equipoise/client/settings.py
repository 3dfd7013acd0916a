"""What a user of the client may set: each value with its unit, its bounds and the reason for its default.

Read once, when `equipoise.connect` is called; a frozen value afterwards.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from equipoise.client.url import parse_address
from equipoise.coordinates.finder_settings import REPORTS_PATIENCE, FinderSettings
from equipoise.errors import SettingsError

# How a place is found where nobody wants it otherwise.
_FINDING = FinderSettings()

KIB = 1024
MIB = 1024 * KIB


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bus: one connection and what is queued around it."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[!-~]*$",
            max_length=64,
            description="Shown by CLIENT LIST on the hub: tells an operator who this is. Empty: none.",
        ),
    ] = ""
    connect_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="For one address: TCP, TLS and greeting. Three lost SYNs take 7 s; fewer are usual.",
        ),
    ] = 5.0
    first_connect_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long entering the bus goes on trying. 0: each address once, so that a wrong one "
            "is told at once; more where hub and client start together.",
        ),
    ] = 0.0
    request_timeout_s: Annotated[
        float,
        Meta(
            gt=0, description="For a receipt, a flush or a subscription, waiting for a reconnection included."
        ),
    ] = 10.0
    close_timeout_s: Annotated[
        float,
        Meta(gt=0, description="For the last receipts when the bus is left; an exit should not hang."),
    ] = 2.0
    reconnect_first_s: Annotated[
        float,
        Meta(gt=0, description="First delay before a reconnection; a hub restarts in a few times this."),
    ] = 0.1
    reconnect_max_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest delay between attempts: how late a client may notice that a hub is back. A "
            "connection that lasted this long starts the delays afresh.",
        ),
    ] = 5.0
    ping_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Time between pings; shorter than what middleboxes forget idle connections after.",
        ),
    ] = 30.0
    pings_unanswered_max: Annotated[
        int,
        Meta(ge=1, description="Pings without any sign of life after which the connection is given up."),
    ] = 2
    window_messages_max: Annotated[
        int,
        Meta(
            ge=1, description="Publishes without receipt yet; enough to fill a long link with small messages."
        ),
    ] = 1_000
    window_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Their bytes: bounds memory, and how much is uncertain after a lost connection.",
        ),
    ] = 16 * MIB
    payload_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Longest payload. The hub's own default, and it closes the connection on a longer "
            "one; raise both together.",
        ),
    ] = MIB
    queue_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Messages waiting in one subscription; beyond it the oldest are dropped and a gap "
            "tells. More than the 54,000 that can come in one turn of the loop: only a slow consumer loses any.",
        ),
    ] = 65_536
    queue_bytes_max: Annotated[
        int,
        Meta(ge=KIB, description="Bytes of payload waiting in one subscription; seconds of a busy topic."),
    ] = 64 * MIB
    pattern_topics_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics per pattern whose position is remembered to notice holes; the first seen is "
            "forgotten first. Some 200 B each.",
        ),
    ] = 10_000
    routing: Annotated[
        bool,
        Meta(
            description="Whether to go where topics live when a hub says so. False: stay with the hub of the URL, "
            "which relays; for clients that cannot reach the others."
        ),
    ] = True
    route_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A topic neither published to nor subscribed to for this long is forgotten with the way to "
            "it. Some minutes of silence would cost more to remember than being told anew.",
        ),
    ] = 60.0
    routes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics remembered with the way to them; the first is forgotten first. 500 B each.",
        ),
    ] = 50_000
    links_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Hubs connected to at once, the one of the URL aside. Beyond it topics are served by relays.",
        ),
    ] = 64
    merge_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB,
            description="What a topic's new home has sent while its old one has not got as far; a round trip's worth "
            "is usual. Beyond it the old one is given up, and a gap tells what that cost.",
        ),
    ] = 8 * MIB
    merge_s: Annotated[
        float,
        Meta(gt=0, description="How long the old home has to get as far; then it is given up likewise."),
    ] = 10.0
    coordinate_enabled: Annotated[
        bool,
        Meta(
            description="Whether to find out where this client is in the network, and tell the hubs it uses: topics "
            "with a latency limit are placed by it. False: nothing is asked or told, and hubs go by what TCP "
            "shows them."
        ),
    ] = True
    coordinate_report_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Between two reports of the coordinate to one hub, and between two questions to a gateway. "
            "Some 230 B each; changes that matter are told at once.",
        ),
    ] = _FINDING.report_s
    coordinate_probe_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Between two probes until the place is found, which takes about a minute; then reports do.",
        ),
    ] = _FINDING.probe_s
    coordinate_visit_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Between two short connections to other hubs of the URL, or heard of, once the place is "
            "found, and 10 s before, a quarter more or less at random. From one hub alone no direction can be found. "
            "0: no such connections.",
        ),
    ] = _FINDING.visit_s
    coordinate_gateway: Annotated[
        str,
        Meta(
            max_length=260,
            description="Where the gateway is, as `host:port`, that a moving client takes its place from. Empty: "
            "none. `Bus.use_gateway` changes it.",
        ),
    ] = ""
    coordinate_gateway_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long a silent gateway's last word holds; then the client finds its place by itself. "
            "More than two report intervals, and long enough for a gateway to be started again. 0: not at all.",
        ),
    ] = _FINDING.gateway_patience_s
    tls_ca_file: Annotated[
        str, Meta(description="Authorities trusted to sign the hub's certificate, PEM. Empty: the system's.")
    ] = ""
    tls_cert_file: Annotated[str, Meta(description="This client's certificate chain, PEM. Empty: none.")] = ""
    tls_key_file: Annotated[str, Meta(description="The key of that certificate, PEM.")] = ""


def make_settings(base: ClientSettings | None, overrides: dict[str, Any]) -> ClientSettings:
    """The base with the overrides on top. Raises SettingsError that names the setting and its bound."""
    values = msgspec.structs.asdict(base if base is not None else ClientSettings())
    unknown = [name for name in overrides if name not in values]
    if unknown:
        raise SettingsError(f"there is no client setting {unknown[0]!r}; there are: {', '.join(values)}")
    try:
        settings = msgspec.convert(values | overrides, ClientSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"client settings: {error}") from error
    if settings.payload_bytes_max > settings.window_bytes_max:
        raise SettingsError("client settings: payload_bytes_max must not exceed window_bytes_max")
    if settings.reconnect_first_s > settings.reconnect_max_s:
        raise SettingsError("client settings: reconnect_first_s must not exceed reconnect_max_s")
    if settings.coordinate_gateway and parse_address(settings.coordinate_gateway.encode()) is None:
        raise SettingsError("client settings: coordinate_gateway is an address; write it like host:6390")
    least_s = REPORTS_PATIENCE * settings.coordinate_report_interval_s
    if 0 < settings.coordinate_gateway_patience_s <= least_s:
        raise SettingsError(
            f"client settings: coordinate_gateway_patience_s must be more than {REPORTS_PATIENCE} times "
            "coordinate_report_interval_s, or 0: a gateway is asked once in that interval, and one answer may be lost"
        )
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        raise SettingsError(
            "client settings: tls_cert_file and tls_key_file go together; give both or neither"
        )
    return settings
