"""Specs: what they may say, and which one holds for a topic."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import SettingsError
from equipoise.model import Durability, Glob, Specs, TopicSpec, decode_spec, encode_spec


def specs_of(*patterns: bytes) -> Specs:
    return Specs(TopicSpec(pattern=pattern) for pattern in patterns)


def winner(specs: Specs, topic: bytes) -> bytes | None:
    spec = specs.of(topic)
    return None if spec is None else spec.pattern


@pytest.mark.parametrize(
    ("topic", "pattern"),
    [
        (b"game.eu.1", b"game.eu.1"),
        (b"game.eu.2", b"game.eu.*"),
        (b"game.us.2", b"game.*"),
        (b"chat.log", b"*.log"),
        (b"chat", b"*"),
        (b"$sys.load", b"$sys.*"),
        (b"$other", None),
    ],
)
def test_the_most_specific_pattern_wins(topic: bytes, pattern: bytes | None) -> None:
    specs = specs_of(b"*", b"game.*", b"*.log", b"game.eu.1", b"game.eu.*", b"$sys.*")
    assert winner(specs, topic) == pattern


def test_equal_claims_are_settled_the_same_way_whatever_the_order() -> None:
    one, other = specs_of(b"a?c", b"a*c", b"ab?"), specs_of(b"ab?", b"a*c", b"a?c")
    assert winner(one, b"abc") == winner(other, b"abc") == b"ab?"
    assert winner(specs_of(b"*a", b"a*"), b"a") == winner(specs_of(b"a*", b"*a"), b"a") == b"a*"


def test_an_escaped_wildcard_is_an_exact_name() -> None:
    assert winner(specs_of(b"*", b"what\\?"), b"what?") == b"what\\?"


def test_fields_of_different_specs_are_not_mixed() -> None:
    specs = Specs([TopicSpec(pattern=b"*", latency_ms=40), TopicSpec(pattern=b"game.*", site="paris")])
    found = specs.of(b"game.1")
    assert found is not None
    assert (found.latency_ms, found.site) == (None, "paris")


def test_a_later_spec_of_the_same_pattern_replaces_the_earlier_one() -> None:
    specs = Specs([TopicSpec(pattern=b"*", latency_ms=40), TopicSpec(pattern=b"*", latency_ms=50)])
    assert [spec.latency_ms for spec in specs] == [50]
    assert len(specs) == 1


@given(
    st.lists(st.text("ab*?", min_size=1, max_size=4).map(str.encode), max_size=6),
    st.text("ab", min_size=1, max_size=5).map(str.encode),
)
def test_a_spec_is_found_exactly_if_one_matches(patterns: list[bytes], topic: bytes) -> None:
    found = winner(specs_of(*patterns), topic)
    matching = {pattern for pattern in patterns if Glob(pattern).matches(topic)}
    assert (found in matching) if matching else found is None


@pytest.mark.parametrize(
    "fields",
    [
        {"pattern": b""},
        {"pattern": b"a" * 257},
        {"pattern": b"?" * 9},
        {"latency_ms": 0},
        {"latency_ms": math.nan},
        {"latency_ms": math.inf},
        {"quantile": 1.0},
        {"quantile": 0.0},
        {"rate_per_s": 0},
        {"rate_per_s": math.nan},
        {"rate_per_s": math.inf},
        {"rate_per_s": 10, "burst_messages": 10_000_001},
        {"burst_messages": 5},
        {"rate_per_s": 10, "burst_messages": 0},
        {"site": ""},
    ],
)
def test_a_spec_that_means_nothing_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        TopicSpec(**({"pattern": b"*"} | fields))


def test_a_rate_just_above_the_bound_is_named_as_it_was_given() -> None:
    with pytest.raises(SettingsError, match=r"rate 10000001/s: it must be between 0\.001 and 10000000"):
        TopicSpec(pattern=b"*", rate_per_s=10_000_001)


@pytest.mark.parametrize("quorums", [(2, 3, 2), (3, 2, 3), (3, 3, 0)])
def test_quorums_fit_into_each_other(quorums: tuple[int, int, int]) -> None:
    with pytest.raises(SettingsError, match="quorum"):
        Durability(*quorums)


def test_a_spec_reads_back_from_its_bytes() -> None:
    spec = TopicSpec(
        pattern=b"game.*",
        latency_ms=40,
        quantile=0.9,
        rate_per_s=1000,
        burst_messages=50,
        durability=Durability(5, 3, 2),
        site="paris",
    )
    assert decode_spec(encode_spec(spec)) == spec


def test_fields_of_a_newer_program_are_passed_over() -> None:
    newer = msgspec.msgpack.encode({"pattern": b"a*", "colour": "green"})
    assert decode_spec(newer) == TopicSpec(pattern=b"a*")


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode({"latency_ms": 4})])
def test_bytes_that_are_not_a_spec_are_refused(data: bytes) -> None:
    with pytest.raises(SettingsError):
        decode_spec(data)
