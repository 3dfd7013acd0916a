"""The experiments of Dynamoth, section V."""

from __future__ import annotations

from equipoise.lab.experiments.dynamoth_channel import EXPERIMENT_1A, EXPERIMENT_1B
from equipoise.lab.experiments.dynamoth_game import EXPERIMENT_2, EXPERIMENT_3

__all__ = ["DYNAMOTH"]

DYNAMOTH = (EXPERIMENT_1A, EXPERIMENT_1B, EXPERIMENT_2, EXPERIMENT_3)
