"""Limits on the resources of one client and of all clients of a hub.

Each has its unit, its own bounds and the reason for its default. Part of `HubSettings`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.resp import RequestLimits

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400.0
# The greatest value that the kernel accepts; with a greater one, keepalive would be off.
KEEPALIVE_CEILING_S = 32_767
PAYLOAD_BYTES_CEILING = 8 * MIB
# The fast reader passes chunks with counts of five digits to the exact parser, so a higher ceiling would be slower.
ARGS_CEILING = 9_999
# Arguments of a frame between hubs: up to 1,000 messages and their metadata.
FRAME_ARGS = 1_024


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on the resources of one client, and of all clients together."""

    payload_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            le=PAYLOAD_BYTES_CEILING,
            description="Longest argument of a command, and so the longest message. 1 MiB as in NATS: a "
            "larger one blocks a core for too long at high fan-out. Hard ceiling 8 MiB.",
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
        Meta(ge=64, le=64 * KIB, description="Length of an inline command (a plain text line)."),
    ] = 4 * KIB
    topic_bytes_max: Annotated[int, Meta(ge=16, le=64 * KIB, description="Length of a topic name.")] = 4 * KIB
    input_slack_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="An incomplete request may buffer 2 x payload_bytes_max plus this: one message, the "
            "next one behind it, and their headers.",
        ),
    ] = 64 * KIB
    input_total_share: Annotated[
        float,
        Meta(
            gt=0,
            le=0.9,
            description="Unfinished requests and queued transactions of all clients together, as a share of the "
            "machine's memory; above it, a connection of the address that holds the most is cut.",
        ),
    ] = 0.05
    request_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time for a request to come, from its first byte to its last: 1 MiB at 35 kB/s.",
        ),
    ] = 30.0
    transaction_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Memory of the commands between MULTI and EXEC: some 30,000 short messages, which is what "
            "pipelines of Redis clients send by default.",
        ),
    ] = 8 * MIB
    waiting_bytes_max: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory of all messages that wait for tokens of rate limits; above it, publishes are "
            "refused. Messages that wait while topics move count apart (cluster.pending_bytes_max).",
        ),
    ] = 64 * MIB
    unauthenticated_args_max: Annotated[
        int, Meta(ge=2, le=64, description="Arguments before AUTH: HELLO with AUTH and SETNAME has seven.")
    ] = 10
    unauthenticated_payload_bytes_max: Annotated[
        int, Meta(ge=64, le=64 * KIB, description="Argument length before AUTH; long enough for tokens.")
    ] = 4 * KIB
    unauthenticated_input_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB, description="Bytes accepted before AUTH, so that an unauthenticated client costs little."
        ),
    ] = 64 * KIB
    unauthenticated_output_bytes_max: Annotated[
        int,
        Meta(
            ge=KIB, description="Bytes of replies before AUTH: error replies could pile up (CVE-2025-21605)."
        ),
    ] = 16 * KIB
    unauthenticated_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time to authenticate, as in NATS; then the connection is closed.",
        ),
    ] = 2.0
    login_check_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time for the hub to check a login, including the queue in front of it: 500 users "
            "that reconnect at once take 13 s. The client's own time-out is suspended meanwhile.",
        ),
    ] = 20.0
    authentications_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Secrets checked at the same time; each takes a thread and 16 MiB for some 50 ms.",
        ),
    ] = 2
    output_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Hard limit of unsent output: a client above it is disconnected at once. Seconds of a "
            "hot topic.",
        ),
    ] = 8 * MIB
    output_soft_bytes: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Soft limit of unsent output: a client may be above it for output_soft_s.",
        ),
    ] = 2 * MIB
    output_soft_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="Time a client may stay above the soft limit: longer than a garbage collection pause "
            "or a network hand-off.",
        ),
    ] = 10.0
    output_total_share: Annotated[
        float,
        Meta(
            gt=0,
            le=0.9,
            description="Unsent output of all clients together, as a share of the machine's memory; beyond it "
            "the client with most unsent output is disconnected.",
        ),
    ] = 0.25
    connections_max: Annotated[
        int, Meta(ge=1, description="Open connections; each takes a file descriptor and some 3 kB.")
    ] = 10_000
    connections_per_address_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections from one address other than loopback; a NAT hides many clients behind "
            "one address.",
        ),
    ] = 512
    accepts_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections accepted per second from addresses other than loopback; more wait, so "
            "that many clients that reconnect at once do not starve the connected ones.",
        ),
    ] = 200
    loopback_is_exempt: Annotated[
        bool, Meta(description="Whether loopback is exempt from the two limits above.")
    ] = True
    subscriptions_max: Annotated[
        int, Meta(ge=1, description="Subscriptions of one connection, by name and by pattern together.")
    ] = 10_000
    patterns_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Pattern subscriptions among them. A new topic is matched with every pattern that "
            "shares its literal prefix, at a microsecond or two each.",
        ),
    ] = 1_000
    subscriptions_hub_max: Annotated[
        int, Meta(ge=1, description="Subscriptions of all connections together, some 150 B each.")
    ] = 1_000_000
    patterns_hub_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Different patterns of all connections together, some 1 kB each. A new topic is "
            "matched with those that share its literal prefix: 10 ms if that is all of them.",
        ),
    ] = 20_000
    filters_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Different filters of all connections together, some 1 kB each with their subscribers. "
            "Those of one connection count among its subscriptions_max.",
        ),
    ] = 200_000
    user_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of connections_max, subscriptions_hub_max, patterns_hub_max, filters_max and "
            "topics_bytes_max that one named user may hold, over all its connections; and of a topic's 1,000 "
            "shapes of filters, 10,000 attributes in filters, and 1,000 filters that are evaluated one by one.",
        ),
    ] = 0.8
    pattern_bytes_max: Annotated[
        int,
        Meta(ge=1, le=4 * KIB, description="Length of a pattern: matching costs time for each new topic."),
    ] = 256
    pattern_wildcards_max: Annotated[
        int, Meta(ge=1, le=256, description="Wildcards in a pattern; runs of * count once.")
    ] = 8
    topics_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Topics in memory. The topic without subscribers that was unused longest is removed "
            "first.",
        ),
    ] = 200_000
    topics_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Memory of all topics together: 1,450 B and twice the name for each. Enough for "
            "topics_max topics with names of 150 bytes.",
        ),
    ] = 340 * MIB
    topic_idle_s: Annotated[
        float,
        Meta(
            gt=0,
            le=DAY_S,
            description="A topic without subscribers and messages is removed after this time; long enough "
            "that a subscriber that reconnects still learns exactly what it missed.",
        ),
    ] = 300.0
    keepalive_s: Annotated[
        int,
        Meta(
            ge=1,
            le=KEEPALIVE_CEILING_S,
            description="TCP keepalive: idle time before the first probe, and between probes; two unanswered "
            "probes close the connection.",
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
        """Limits on frames of other hubs: up to a thousand messages, each within the limits of the sending hub.

        The sending hub's limits may differ from this hub's, for instance while settings are changed hub by hub.
        """
        requests = self.of_requests(is_authenticated=True)
        return dataclasses.replace(
            requests, args_max=max(self.args_max, FRAME_ARGS), payload_bytes_max=PAYLOAD_BYTES_CEILING
        )
