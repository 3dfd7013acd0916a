"""Settings of a controller. Read once at start."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError

__all__ = ["POLICIES", "ControllerSettings", "policy_lines"]

# Every policy and baseline by name, with one line each; `plan.registry` creates them. Defined here, so that help texts
# need not import the planner.
POLICIES = {
    "load": "moves, replicates and scales by load and latency limits (Dynamoth and ePulsar together)",
    "epulsar": "ePulsar's topic manager as published: latency limits and resource thresholds, no replication",
    "all-pairs": "ePulsar's baseline that knows every client's coordinate: experiments only",
    "hashing": "consistent hashing that requests servers on overload and moves nothing (Dynamoth's baseline)",
    "ring": "consistent hashing over the live hubs, regardless of load",
    "static": "does not change the plan",
}


def policy_lines(separator: str = "; ") -> str:
    return separator.join(f"{name}: {line}" for name, line in POLICIES.items())


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One controller. The policy has the constants of planning."""

    name: Annotated[str, Meta(description="Name of the controller, unique among the controllers.")] = (
        "controller"
    )
    site: Annotated[str, Meta(description="Site of the controller.")] = ""
    sites: Annotated[
        tuple[str, ...],
        Meta(
            description="Sites whose controllers may lead; empty: all. A controller elsewhere only stands by."
        ),
    ] = ()
    policy: Annotated[str, Meta(description=f"Planning policy. {policy_lines()}.")] = "load"
    period_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between two planning rounds, 5 s as in ePulsar; an overload or a broken "
            "latency limit starts one earlier.",
        ),
    ] = 5.0
    urgent_period_s: Annotated[
        float,
        Meta(
            gt=0, description="Interval between two rounds while a limit is broken: views arrive each second."
        ),
    ] = 1.0
    join_gather_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long the round that lets a new hub in waits for others that start with it: one plan for "
            "all of them shares load out at once. A view that starts a round ends the wait.",
        ),
    ] = 1.0
    view_age_s_max: Annotated[
        float,
        Meta(
            gt=0,
            description="Age of the newest view above which no topic is moved (the plan is frozen).",
        ),
    ] = 10.0
    hubs_min: Annotated[int, Meta(ge=1, description="Hubs that are never stopped.")] = 1
    hubs_max: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum number of hubs that the controller starts, without drained ones; 0: none.",
        ),
    ] = 0
    hub_start_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A requested hub that is not alive after this time is stopped, and another is requested: "
            "new machines need some minutes.",
        ),
    ] = 600.0
    fit_master: Annotated[
        str,
        Meta(
            description="Spark master for fits of limited topics whose latency limit does not hold: their arrivals "
            "are recorded for 10 s and replayed for every number of hubs. Empty: in one process, without Spark."
        ),
    ] = "local[2]"
    fit_user: Annotated[
        str, Meta(description="User that records arrivals at hubs for fits; empty: no login.")
    ] = ""
    fit_password_file: Annotated[str, Meta(description="File with the password of `fit_user`.")] = ""

    def __post_init__(self) -> None:
        if self.hubs_max and self.hubs_max < self.hubs_min:
            raise SettingsError(f"hubs_max = {self.hubs_max} is below hubs_min = {self.hubs_min}")
