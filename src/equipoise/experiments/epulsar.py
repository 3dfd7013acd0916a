"""The experiments of ePulsar, by the numbers of its figures."""

from __future__ import annotations

from equipoise.experiments.epulsar_coordinates import EXPERIMENT_3
from equipoise.experiments.epulsar_migration import EXPERIMENT_7
from equipoise.experiments.epulsar_monitoring import EXPERIMENT_6
from equipoise.experiments.epulsar_placing import EXPERIMENT_4, EXPERIMENT_5

__all__ = ["EPULSAR"]

EPULSAR = (EXPERIMENT_3, EXPERIMENT_4, EXPERIMENT_5, EXPERIMENT_6, EXPERIMENT_7)
