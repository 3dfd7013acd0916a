"""Settings of the client, each with unit, bounds and the reason for its default.

Read once, when `equipoise.connect` is called; a frozen value afterwards.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from equipoise.client.url import parse_address
from equipoise.coordinates.settings import REPORTS_PATIENCE, FinderSettings
from equipoise.errors import SettingsError
from equipoise.model.renamed_settings import CLIENT_SETTINGS, refuse_renamed

# The default constants of the coordinate estimator.
_FINDING = FinderSettings()

KIB = 1024
# The hub's bound for EQ.CORRELATE.
_GROUP_BYTES_MAX = 256
MIB = 1024 * KIB


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bus: one connection and what is queued around it."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[!-~]*$",
            max_length=64,
            description="Shown by CLIENT LIST on the hub. Empty: none.",
        ),
    ] = ""
    group: Annotated[
        str,
        Meta(
            max_length=_GROUP_BYTES_MAX,
            description="Group of publishers that publish at the same moments: if a topic with a rate limit is "
            "split, they are sent to different hubs. At most 256 bytes. Empty: none.",
        ),
    ] = ""
    connect_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="For one address: TCP, TLS and handshake. Three lost SYNs take 7 s; fewer are usual.",
        ),
    ] = 5.0
    first_connect_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long the first connection is retried. 0: each address once, so that a wrong address "
            "fails at once; more if hub and client start together.",
        ),
    ] = 0.0
    request_timeout_s: Annotated[
        float,
        Meta(gt=0, description="For an ack, a flush or a subscription, including a reconnection."),
    ] = 10.0
    close_timeout_s: Annotated[
        float,
        Meta(gt=0, description="For the last acks when the bus is closed."),
    ] = 2.0
    reconnect_first_s: Annotated[
        float,
        Meta(gt=0, description="First delay before a reconnection; a hub restarts in a few times this."),
    ] = 0.1
    reconnect_max_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest delay between attempts. A connection that lasted this long resets the delay.",
        ),
    ] = 5.0
    ping_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between pings; shorter than the idle time-out of middleboxes.",
        ),
    ] = 30.0
    pings_unanswered_max: Annotated[
        int,
        Meta(ge=1, description="Unanswered pings after which the connection is closed."),
    ] = 2
    in_flight_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Publishes in flight (without an ack yet); enough to fill a long link with small "
            "messages.",
        ),
    ] = 1_000
    in_flight_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Bytes of publishes in flight: bounds memory, and how much is uncertain after a lost "
            "connection.",
        ),
    ] = 16 * MIB
    payload_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Longest payload. The hub has the same limit and closes the connection on a longer "
            "one; raise both together.",
        ),
    ] = MIB
    queue_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Messages queued in one subscription; beyond it the oldest are dropped and a gap "
            "event reports them. More than the 54,000 that can arrive in one turn of the loop: "
            "only a slow consumer loses any.",
        ),
    ] = 65_536
    queue_bytes_max: Annotated[
        int,
        Meta(ge=KIB, description="Bytes of payload queued in one subscription; seconds of a busy topic."),
    ] = 64 * MIB
    pattern_topics_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics per pattern whose position is tracked to detect gaps; the first seen is "
            "dropped first. Some 200 B each.",
        ),
    ] = 10_000
    routing: Annotated[
        bool,
        Meta(
            description="Whether to follow redirects to the home of a topic. False: stay with the hub of the "
            "URL, which relays; for clients that cannot reach the other hubs."
        ),
    ] = True
    route_idle_s: Annotated[
        float,
        Meta(
            gt=0,
            description="The route of a topic that was neither published nor subscribed to for this long is "
            "dropped.",
        ),
    ] = 60.0
    routes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Routes kept; the oldest is dropped first. 500 B each.",
        ),
    ] = 50_000
    links_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections to hubs other than the one of the URL. Beyond it topics are served by "
            "relays.",
        ),
    ] = 64
    merge_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Bytes buffered from a topic's new home until its old home has caught up; a round "
            "trip's worth is usual. Beyond it the old home is abandoned, and a gap event reports "
            "what is missing.",
        ),
    ] = 8 * MIB
    merge_timeout_s: Annotated[
        float,
        Meta(gt=0, description="How long the old home may bring nothing before it is abandoned likewise."),
    ] = 10.0
    coordinate_enabled: Annotated[
        bool,
        Meta(
            description="Whether to find the network coordinate of this client and report it to the hubs in "
            "use: topics with a latency limit are placed by it. False: hubs use the round-trip "
            "time of the connection."
        ),
    ] = True
    coordinate_report_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between two reports of the coordinate to one hub, and between two requests "
            "to a gateway. Some 230 B each; significant changes are reported at once.",
        ),
    ] = _FINDING.report_s
    coordinate_probe_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between two probes until the coordinate has converged, which takes about a "
            "minute; afterwards reports serve as probes.",
        ),
    ] = _FINDING.probe_s
    coordinate_visit_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Interval between two short connections to other known hubs after the coordinate has "
            "converged; 10 s before; a quarter more or less at random. One hub alone does not "
            "determine a coordinate. 0: no such connections.",
        ),
    ] = _FINDING.visit_s
    coordinate_gateway: Annotated[
        str,
        Meta(
            max_length=260,
            description="Address of the gateway, as `host:port`, whose coordinate a moving client uses. "
            "Empty: none. `Bus.use_gateway` changes it.",
        ),
    ] = ""
    coordinate_gateway_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long the last answer of a silent gateway is used; then the client finds its own "
            "coordinate. More than two report intervals, and long enough to restart a gateway. 0: "
            "not at all.",
        ),
    ] = _FINDING.gateway_patience_s
    tls_ca_file: Annotated[
        str, Meta(description="CAs that sign hub certificates, PEM. Empty: the system's.")
    ] = ""
    tls_cert_file: Annotated[str, Meta(description="This client's certificate chain, PEM. Empty: none.")] = ""
    tls_key_file: Annotated[str, Meta(description="Private key of that certificate, PEM.")] = ""


def make_settings(base: ClientSettings | None, overrides: dict[str, Any]) -> ClientSettings:
    """The base with the overrides on top. Raises SettingsError that names the setting and its bound."""
    values = msgspec.structs.asdict(base if base is not None else ClientSettings())
    refuse_renamed(overrides, CLIENT_SETTINGS)
    unknown = [name for name in overrides if name not in values]
    if unknown:
        raise SettingsError(f"there is no client setting {unknown[0]!r}; there are: {', '.join(values)}")
    try:
        settings = msgspec.convert(values | overrides, ClientSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"client settings: {error}") from error
    if len(settings.group.encode(errors="surrogatepass")) > _GROUP_BYTES_MAX:
        raise SettingsError(f"client settings: group must not exceed {_GROUP_BYTES_MAX} bytes in UTF-8")
    if settings.payload_bytes_max > settings.in_flight_bytes_max:
        raise SettingsError("client settings: payload_bytes_max must not exceed in_flight_bytes_max")
    if settings.reconnect_first_s > settings.reconnect_max_s:
        raise SettingsError("client settings: reconnect_first_s must not exceed reconnect_max_s")
    if settings.coordinate_gateway and parse_address(settings.coordinate_gateway.encode()) is None:
        raise SettingsError("client settings: coordinate_gateway is an address; write it like host:6390")
    least_s = REPORTS_PATIENCE * settings.coordinate_report_interval_s
    if 0 < settings.coordinate_gateway_timeout_s <= least_s:
        raise SettingsError(
            f"client settings: coordinate_gateway_timeout_s must be more than {REPORTS_PATIENCE} times "
            "coordinate_report_interval_s, or 0: a gateway is asked once in that interval, and one answer may be lost"
        )
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        raise SettingsError(
            "client settings: tls_cert_file and tls_key_file go together; give both or neither"
        )
    return settings
