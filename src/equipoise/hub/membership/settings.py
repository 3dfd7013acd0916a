"""What a hub says of itself to the others, and how it keeps in touch with the store they meet in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["Join", "MembershipSettings"]


class Join(StrEnum):
    # Where no controller leads, take part by oneself.
    AUTO = "auto"
    # Take part when a controller, or an operator, says so.
    WAIT = "wait"


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hub among others. Without a store it is alone."""

    store: Annotated[
        str,
        Meta(
            description="Where the hubs meet: zk://host:port,host:port/root, or eqs://host:port. "
            "None: this hub is alone."
        ),
    ] = ""
    region: Annotated[
        str, Meta(description="Hubs of one region make one system; several may share a ZooKeeper.")
    ] = "default"
    advertise: Annotated[
        str,
        Meta(
            description="host:port at which clients and other hubs reach this one. None: where it listens, "
            "which will not do if that is every address."
        ),
    ] = ""
    site: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$", description="Where the hub stands: a city, a data centre."),
    ] = ""
    rack: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$", description="What it shares power or a switch with.")
    ] = ""
    weight: Annotated[
        float,
        Meta(
            ge=0,
            le=16,
            description="Its share of the topics when it joins, in multiples of an ordinary hub; kept in "
            "sixteenths. 0 takes none but what the plan names. Later the plan decides.",
        ),
    ] = 1.0
    join: Annotated[
        Join,
        Meta(
            description="auto: where no controller leads, the hub enters itself into the plan. wait: it waits to "
            "be entered."
        ),
    ] = Join.AUTO
    join_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long a controller that leads may take to give a member that has come back its place "
            "again, before the hub sees to it by itself: longer than a controller takes to be replaced.",
        ),
    ] = 30.0
    cluster_user: Annotated[
        str,
        Meta(
            description='Who this hub is at the others, where there are users: one with operate = ["*"], as links '
            "carry messages that nobody judges again."
        ),
    ] = ""
    cluster_password_file: Annotated[
        str, Meta(description="File with that user's password: what is on a command line can be read by all.")
    ] = ""
    session_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="After this long without a word to the store a hub counts as dead. Shorter finds dead "
            "hubs sooner, longer spares those that pause. ZooKeeper grants 4 to 40 s unless told otherwise.",
        ),
    ] = 6.0
    load_report_s: Annotated[
        float,
        Meta(
            gt=0,
            description="How often the load is told at most; each time is a write to the store for every hub.",
        ),
    ] = 5.0
    retry_s: Annotated[
        float,
        Meta(gt=0, description="Pause after the store has failed, and between looks for a controller."),
    ] = 1.0
