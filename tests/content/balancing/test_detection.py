"""Detection of overload and of differences, the order of requests; contradictory settings are rejected."""

from __future__ import annotations

import msgspec
import pytest

from equipoise.content.balancing.detection import detect, is_steady, triggers_of
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import (
    ClusterJoined,
    ClusterParted,
    ControlMessage,
    HubStatus,
    Pie,
    SessionDone,
    SessionEnd,
    SessionReply,
    SessionRequest,
    decode,
    encode,
)
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.settings import BalancingSettings, LoadMetric, OverloadThresholds

from .support import load_of

SETTINGS = BalancingSettings()
LOCAL = triggers_of(SETTINGS)


def asked(own: EdgeLoad, **neighbours: EdgeLoad) -> list[tuple[str, BalancedMetric]]:
    found = detect(own, neighbours, neighbours, SETTINGS, LOCAL)
    return [(request.hub, request.metric) for request in found.requests]


@pytest.mark.parametrize(
    ("own", "metric"),
    [
        (load_of(input_ratio=0.96), BalancedMetric.MATCH),
        (load_of(output_ratio=0.96), BalancedMetric.OUTPUT),
        (load_of(memory_ratio=0.96), BalancedMetric.MATCH),
        (load_of(other_cpu_ratio=0.96), BalancedMetric.MATCH),
    ],
)
def test_an_overload_is_balanced_by_the_algorithm_of_table_2(own: EdgeLoad, metric: BalancedMetric) -> None:
    found = detect(own, {"b": load_of()}, ["b"], SETTINGS, LOCAL)
    assert found.is_overloaded
    assert found.is_unavailable
    assert [(request.hub, request.metric, request.is_overloaded) for request in found.requests] == [
        ("b", metric, True)
    ]


def test_between_the_thresholds_an_edge_takes_nothing_and_is_not_overloaded() -> None:
    found = detect(load_of(output_ratio=0.92), {"b": load_of(output_ratio=0.9)}, ["b"], SETTINGS, LOCAL)
    assert found.is_unavailable
    assert not found.is_overloaded
    assert not found.requests


def test_the_hubs_that_differ_most_are_requested_first() -> None:
    own = load_of(input_ratio=0.6, output_ratio=0.5)
    assert asked(own, b=load_of(input_ratio=0.45, output_ratio=0.45), c=load_of(input_ratio=0.1)) == [
        ("c", BalancedMetric.INPUT),
        ("c", BalancedMetric.OUTPUT),
        ("b", BalancedMetric.INPUT),
    ]


def test_only_the_more_loaded_of_two_sends_a_request() -> None:
    low, high = load_of(input_ratio=0.1), load_of(input_ratio=0.5)
    assert asked(low, b=high) == []
    assert asked(high, b=low) == [("b", BalancedMetric.INPUT)]


def test_delays_are_compared_by_equation_1() -> None:
    own = load_of(delay_s=0.031)
    assert asked(own, b=load_of(delay_s=0.022)) == []
    assert asked(own, b=load_of(delay_s=0.020)) == [("b", BalancedMetric.MATCH)]


def test_a_neighbour_that_is_not_ok_is_compared_and_gets_no_request() -> None:
    found = detect(
        load_of(input_ratio=0.5), {"b": load_of(), "c": load_of(input_ratio=0.5)}, [], SETTINGS, LOCAL
    )
    assert not found.requests
    assert found.balanced == {"c"}


def test_clusters_have_triggers_of_their_own() -> None:
    own, other = load_of(input_ratio=0.5), load_of(input_ratio=0.38)
    assert detect(own, {"b": other}, ["b"], SETTINGS, LOCAL).requests
    assert not detect(own, {"b": other}, ["b"], SETTINGS, triggers_of(SETTINGS, is_global=True)).requests


def test_queueing_delays_in_place_of_ratios() -> None:
    settings = BalancingSettings(metric=LoadMetric.QUEUEING)
    own = load_of(input_ratio=0.5, input_wait_s=0.3)
    other = load_of(input_ratio=0.1, input_wait_s=0.1)
    found = detect(own, {"b": other}, ["b"], settings, triggers_of(settings))
    assert [(request.metric, round(request.difference, 3)) for request in found.requests] == [
        (BalancedMetric.INPUT, 2.0)
    ]
    assert not detect(
        load_of(input_ratio=0.5), {"b": load_of()}, ["b"], settings, triggers_of(settings)
    ).requests


def test_steady_is_a_small_change_of_every_metric() -> None:
    assert is_steady(load_of(input_ratio=0.5), load_of(input_ratio=0.54), SETTINGS)
    assert not is_steady(load_of(input_ratio=0.5), load_of(input_ratio=0.56), SETTINGS)
    assert not is_steady(load_of(), load_of(output_ratio=0.06), SETTINGS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": {"lower": 0.95, "higher": 0.9}},
        {"balance_ratio": 0.2},
        {"pie_s": 60.0},
        {"samples": 0},
        {"stabilize_s": -1.0},
        {"estimate": "guessed"},
        {"stabilise_s": 10.0},
    ],
)
def test_impossible_settings_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError)):
        msgspec.convert(wrong, BalancingSettings)


def test_the_defaults_are_those_of_the_paper() -> None:
    assert SETTINGS.input == OverloadThresholds(lower=0.9, higher=0.95)
    assert (SETTINGS.local_ratio_trigger, SETTINGS.local_delay_trigger) == (0.1, 0.1)
    assert (SETTINGS.global_ratio_trigger, SETTINGS.global_delay_trigger) == (0.15, 0.15)
    assert (SETTINGS.delay_norm_s, SETTINGS.stabilize_s, SETTINGS.stabilize_ratio) == (0.1, 30.0, 0.05)
    assert (SETTINGS.balance_ratio, SETTINGS.samples, SETTINGS.sampling_s) == (0.005, 50, 30.0)


MESSAGES: tuple[ControlMessage, ...] = (
    Pie(hub="a", cluster="h", status=HubStatus.UNAVAILABLE, load=load_of(input_ratio=0.3), balanced=("b",)),
    SessionRequest(hub="a", session="a:1", metric=BalancedMetric.OUTPUT),
    SessionReply(hub="b", session="a:1", status=HubStatus.OK, load=load_of(), covers=("a = 1",)),
    SessionEnd(hub="a", session="a:1"),
    SessionDone(hub="b", session="a:1"),
    ClusterJoined(hub="h", cluster="g"),
    ClusterParted(hub="h", cluster="g"),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_survive_encoding(message: ControlMessage) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"type": "pie"}',
        b'{"type": "other", "hub": "a"}',
        encode(MESSAGES[0]).replace(b'"input_rate":15', b'"input_rate":-15'),
        encode(MESSAGES[0]).replace(b'"bandwidth_bytes_per_s":1000', b'"bandwidth_bytes_per_s":0'),
        encode(MESSAGES[0]).replace(b'"hub":"a"', b'"hub":"' + b"a" * 65 + b'"'),
        b"[" * 100_000,
    ],
)
def test_invalid_bytes_are_rejected(data: bytes) -> None:
    assert decode(data) is None
