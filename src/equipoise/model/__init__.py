"""Values that all planes share. Pure."""

from equipoise.model.change import (
    EntryChange,
    MemberChange,
    PlanChange,
    Reason,
    Why,
    apply,
    decode_change,
    diff,
    encode_change,
)
from equipoise.model.glob import Glob
from equipoise.model.plan import (
    Entry,
    Member,
    Mode,
    Placement,
    Plan,
    decode_plan,
    encode_plan,
    quantise_weight,
)
from equipoise.model.ring import WEIGHT_NORMAL, Ring, ring_over
from equipoise.model.spec import Durability, Retention, Specs, TopicSpec, decode_spec, encode_spec

__all__ = [
    "WEIGHT_NORMAL",
    "Durability",
    "Entry",
    "EntryChange",
    "Glob",
    "Member",
    "MemberChange",
    "Mode",
    "Placement",
    "Plan",
    "PlanChange",
    "Reason",
    "Retention",
    "Ring",
    "Specs",
    "TopicSpec",
    "Why",
    "apply",
    "decode_change",
    "decode_plan",
    "decode_spec",
    "diff",
    "encode_change",
    "encode_plan",
    "encode_spec",
    "quantise_weight",
    "ring_over",
]
