"""The error of a coordinate counts against a hub that has just joined, and against no other."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from equipoise.plan import Memory, PlannerSettings
from equipoise.plan.latency import CentroidEstimate, coordinate_doubt
from equipoise.view import View
from plan.near import at, hub, near

HUBS = [hub("old", 0.0), hub("new", 20.0), hub("lost", None)]
VIEW = View.of(100.0, [near("t", 0.1, "old", [at(0.0)], [at(40.0)], HUBS)], HUBS)


def test_the_error_of_a_hub_that_has_just_joined_is_in_doubt_for_a_while() -> None:
    memory = msgspec.structs.replace(Memory(), joined_s={"new": 90.0, "lost": 90.0})
    assert coordinate_doubt(VIEW, memory, PlannerSettings(), 100.0).tolist() == [0.0, 0.1, 0.0]
    assert not coordinate_doubt(VIEW, memory, PlannerSettings(), 200.0).any()


def test_distances_to_such_a_hub_are_longer_by_its_error() -> None:
    topics = np.array([0])
    plain = CentroidEstimate(VIEW).worst_s(topics)[0]
    doubted = CentroidEstimate(VIEW, np.array([0.0, 0.1, 0.0])).worst_s(topics)[0]
    assert doubted[0] == plain[0]
    assert doubted[1] == pytest.approx(1.1 * plain[1])
    assert np.isinf(doubted[2])
