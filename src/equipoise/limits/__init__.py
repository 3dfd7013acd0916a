"""Rate envelopes: at most rate·t + burst messages in any t seconds. Pure: integers, and time as an argument."""

from equipoise.limits.bucket import TOKEN, Bucket, nanoseconds
from equipoise.limits.remainders import Remainders
from equipoise.limits.shares import PARTS, Envelope, Share, equal_parts, split
from equipoise.limits.token_reserve import TokenReserve
from equipoise.limits.turn_ring import TurnRing

__all__ = [
    "PARTS",
    "TOKEN",
    "Bucket",
    "Envelope",
    "Remainders",
    "Share",
    "TokenReserve",
    "TurnRing",
    "equal_parts",
    "nanoseconds",
    "split",
]
