"""The experiments of Dynamoth, section V."""

from __future__ import annotations

from equipoise.experiments.dynamoth_channel import EXPERIMENT_1A, EXPERIMENT_1B

__all__ = ["DYNAMOTH"]

DYNAMOTH = (EXPERIMENT_1A, EXPERIMENT_1B)
