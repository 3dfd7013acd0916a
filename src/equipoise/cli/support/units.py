"""Parse quantities with units, times, and ranges of seeds: 40ms, 1.5s, 500/s, 30/min, 0..100."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from equipoise.errors import SettingsError
from equipoise.limits.shares import RATE_MAX, RATE_MIN
from equipoise.model import Retention

__all__ = ["parse_milliseconds", "parse_rate", "parse_retention", "parse_seeds", "parse_start"]

_TIME = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)")
# Accepts any number: rates are bounded where they are checked.
_RATE = re.compile(
    r"(?P<number>[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf(?:inity)?))\s*/\s*(?P<unit>s|min|h)"
)
_MS = {"us": 0.001, "ms": 1.0, "s": 1_000.0}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3_600.0}

_AGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|min|h|d)")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|[kMGT]B|[KMGT]iB)")
_AGES = {**_SECONDS, "d": 86_400.0}
_SIZES = {"B": 1} | {
    unit: size
    for power, letter in enumerate("KMGT", 1)
    for unit, size in ((f"{letter}iB", 1024**power), (f"{letter.replace('K', 'k')}B", 1000**power))
}


def parse_retention(text: str) -> Retention:
    """An age, a size and `consumed`, any of them, separated by commas. Raises SettingsError."""
    age_s: float | None = None
    bytes_max: int | None = None
    until_consumed = False
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if (age := _AGE.fullmatch(part)) is not None:
            age_s = float(age["number"]) * _AGES[age["unit"]]
        elif (size := _SIZE.fullmatch(part)) is not None:
            bytes_max = int(float(size["number"]) * _SIZES[size["unit"]])
        elif part == "consumed":
            until_consumed = True
        else:
            raise SettingsError(
                f"--retain {text!r}: give an age, a size and consumed, any of them, such as 7d,10GB,consumed"
            )
    if len(parts) > (age_s is not None) + (bytes_max is not None) + until_consumed:
        raise SettingsError(f"--retain {text!r}: give at most one age and one size, such as 7d,10GB,consumed")
    return Retention(age_s, bytes_max, until_consumed)


def parse_milliseconds(text: str) -> float:
    """Raises SettingsError."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise SettingsError(f"{text!r} is not a time: give a number with us, ms or s, such as 40ms")
    return float(found["number"]) * _MS[found["unit"]]


def parse_rate(text: str) -> float:
    """Per second. Raises SettingsError."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise SettingsError(
            f"{text!r} is not a rate: give a number per s, min or h, such as 500/s, between {RATE_MIN:g} and "
            f"{RATE_MAX:.0f} messages per second"
        )
    return float(found["number"]) / _SECONDS[found["unit"]]


def parse_burst(text: str) -> int:
    """Messages. Raises SettingsError."""
    try:
        return int(text)
    except ValueError as problem:
        raise SettingsError(f"burst {text}: give a whole number of messages, such as 200") from problem


def parse_seeds(text: str) -> range:
    """FIRST..END, END excluded. Raises SettingsError."""
    found = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise SettingsError(
            f"--seeds {text!r}: write FIRST..END with FIRST < END, such as 0..1000 for 1,000 seeds"
        )
    return range(int(found[1]), int(found[2]))


def parse_start(text: str) -> str | int | datetime:
    """A start as typed: `number:5` is a position, a time has a date, other words are left as they are."""
    if text.startswith("number:") and text[7:].isdecimal():
        return int(text[7:])
    if "T" not in text:
        return text
    try:
        at = datetime.fromisoformat(text)
    except ValueError as problem:
        raise SettingsError(f"{text}: {problem}; write a time like 2026-01-31T12:00:00+00:00") from problem
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
