"""How a controller is set. Read once at start."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError

__all__ = ["ControllerSettings"]


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One controller. The constants of planning itself are the policy's."""

    name: Annotated[str, Meta(description="Its name, unique among the controllers.")] = "controller"
    site: Annotated[str, Meta(description="Where it stands.")] = ""
    sites: Annotated[
        tuple[str, ...],
        Meta(description="Sites whose controllers may lead; empty: any. One elsewhere stands by for ever."),
    ] = ()
    policy: Annotated[str, Meta(description="How it plans: load, hashing or static.")] = "load"
    period_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Between two rounds, ePulsar's 5 s; an overload or a latency above its limit wakes it earlier.",
        ),
    ] = 5.0
    pressing_s: Annotated[
        float,
        Meta(
            gt=0, description="Between two rounds while something is above its limit: views come each second."
        ),
    ] = 1.0
    view_age_s_max: Annotated[
        float,
        Meta(
            gt=0,
            description="A view older than this is no ground to move anything: three of the view's own windows of "
            "lateness at worst, and the plan is frozen.",
        ),
    ] = 10.0
    hubs_min: Annotated[int, Meta(ge=1, description="Hubs that are never given back.")] = 1
    hubs_max: Annotated[
        int,
        Meta(
            ge=0,
            description="Hubs that are never exceeded by asking, drained ones not counted; 0: it asks for none.",
        ),
    ] = 0
    start_s_max: Annotated[
        float,
        Meta(
            gt=0,
            description="A hub that was asked for and is not alive after this is given up, stopped, and another asked "
            "for: machines that have to be installed first take some minutes.",
        ),
    ] = 600.0

    def __post_init__(self) -> None:
        if self.hubs_max and self.hubs_max < self.hubs_min:
            raise SettingsError(f"hubs_max = {self.hubs_max} is below hubs_min = {self.hubs_min}")
