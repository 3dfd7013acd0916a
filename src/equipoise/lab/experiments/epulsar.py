"""The experiments of ePulsar, by the numbers of its figures."""

from __future__ import annotations

from equipoise.lab.experiments.epulsar_coordinates import EXPERIMENT_3
from equipoise.lab.experiments.epulsar_drones import EXPERIMENT_8
from equipoise.lab.experiments.epulsar_migration import EXPERIMENT_7
from equipoise.lab.experiments.epulsar_monitoring import EXPERIMENT_6
from equipoise.lab.experiments.epulsar_placing import EXPERIMENT_4, EXPERIMENT_5
from equipoise.lab.experiments.epulsar_players import EXPERIMENT_9

__all__ = ["EPULSAR"]

EPULSAR = (
    EXPERIMENT_3,
    EXPERIMENT_4,
    EXPERIMENT_5,
    EXPERIMENT_6,
    EXPERIMENT_7,
    EXPERIMENT_8,
    EXPERIMENT_9,
)
