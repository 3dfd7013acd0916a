"""Settings of a hub's membership: its facts and its store connection."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["Join", "MembershipSettings"]


class Join(StrEnum):
    # The hub adds itself to the plan if no controller leads.
    AUTO = "auto"
    # The hub waits until a controller or an operator adds it to the plan.
    WAIT = "wait"


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Membership in a cluster. Without a store the hub runs alone."""

    store: Annotated[
        str,
        Meta(
            description="Metadata store of the cluster: zk://host:port,host:port/root, or eqs://host:port. "
            "None: a single hub without a cluster."
        ),
    ] = ""
    region: Annotated[
        str, Meta(description="Name of the cluster inside the store; several clusters may share a store.")
    ] = "default"
    advertise: Annotated[
        str,
        Meta(
            description="host:port at which clients and other hubs reach this hub. None: the listening address, "
            "which is an error if the hub listens on every address."
        ),
    ] = ""
    advertise_tls: Annotated[
        str,
        Meta(
            description="host:port at which clients and other hubs reach this hub with TLS. None: the TLS port at "
            "the host of `advertise`."
        ),
    ] = ""
    site: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$", description="Site of the hub: a city or a data centre."),
    ] = ""
    rack: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{0,64}$",
            description="Failure domain inside the site: hubs that share power or a switch.",
        ),
    ] = ""
    weight: Annotated[
        float,
        Meta(
            ge=0,
            le=16,
            description="Share of the hash ring when the hub joins, in multiples of an ordinary hub; stored "
            "in sixteenths. 0: only topics that a plan entry assigns. The plan changes it later.",
        ),
    ] = 1.0
    join: Annotated[
        Join,
        Meta(
            description="auto: the hub adds itself to the plan if no controller leads. wait: it waits to be "
            "added."
        ),
    ] = Join.AUTO
    join_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Time that a leading controller has to add a member that came back, before the hub "
            "adds itself: longer than a failover of the controller takes.",
        ),
    ] = 30.0
    cluster_user: Annotated[
        str,
        Meta(
            description="User this hub logs in as on other hubs, if there are users. It needs link = "
            '["*"], because messages on links between hubs are not authorised again.'
        ),
    ] = ""
    cluster_password_file: Annotated[str, Meta(description="File with the password of that user.")] = ""
    session_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Session time-out of the store: a hub that has not reached the store for this long "
            "counts as dead. Shorter detects failures sooner, longer tolerates pauses. ZooKeeper "
            "grants 4 to 40 s by default.",
        ),
    ] = 6.0
    load_report_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Shortest interval between two load reports; each is a write to the store per hub.",
        ),
    ] = 5.0
    giving_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval at which a hub whose load is 10 % above the mean hands logs of topics to other hubs, "
            "at most 50 at a time, if no controller leads. It also does so when a ledger of a topic rolls.",
        ),
    ] = 300.0
    retry_interval_s: Annotated[
        float,
        Meta(
            gt=0, description="Delay after a failure of the store, and between two checks for a controller."
        ),
    ] = 1.0
