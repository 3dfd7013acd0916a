"""The table of all experiments, by paper; find one by its name, or all of a paper by the paper's."""

from __future__ import annotations

from typing import Any

from equipoise.errors import SettingsError
from equipoise.lab.experiments import (
    dynamoth_channel,
    dynamoth_game,
    dynamoth_market,
    epulsar_coordinates,
    epulsar_evening,
    epulsar_migration,
    epulsar_monitoring,
    epulsar_patrol,
    epulsar_placing,
    padres_estimates,
    padres_global,
    padres_local,
    pulsar_scale_up,
    srtm_groups,
    srtm_penalty,
    srtm_splitting,
    srtm_table,
)
from equipoise.lab.experiments.experiment import Experiment

__all__ = ["EXPERIMENTS", "experiments_by_name"]

_TABLE: tuple[Experiment[Any, Any], ...] = (
    dynamoth_channel.EXPERIMENT_1A,
    dynamoth_channel.EXPERIMENT_1B,
    dynamoth_game.EXPERIMENT_2,
    dynamoth_market.MARKET,
    dynamoth_game.EXPERIMENT_3,
    # In the order of the paper's figures.
    epulsar_coordinates.EXPERIMENT_3,
    epulsar_placing.EXPERIMENT_4,
    epulsar_placing.EXPERIMENT_5,
    epulsar_monitoring.EXPERIMENT_6,
    epulsar_migration.EXPERIMENT_7,
    epulsar_patrol.EXPERIMENT_8,
    epulsar_evening.EXPERIMENT_9,
    epulsar_evening.EXPERIMENT_9_TOUR,
    padres_local.EXPERIMENT_6,
    padres_estimates.EXPERIMENT_7,
    padres_global.EXPERIMENT_8,
    pulsar_scale_up.SCALE_UP,
    srtm_penalty.EXPERIMENT_4,
    srtm_splitting.EXPERIMENT_5,
    srtm_splitting.EXPERIMENT_6,
    srtm_groups.EXPERIMENT_7,
    srtm_groups.EXPERIMENT_8,
    srtm_groups.EXPERIMENT_9,
    srtm_table.TABLE_1,
)
EXPERIMENTS = {experiment.name: experiment for experiment in _TABLE}


def experiments_by_name(name: str) -> list[Experiment[Any, Any]]:
    """The experiment, or all experiments of the paper, with this name. Raises SettingsError for an unknown name."""
    if name in EXPERIMENTS:
        return [EXPERIMENTS[name]]
    found = [experiment for experiment in EXPERIMENTS.values() if experiment.page == name]
    if not found:
        raise SettingsError(f"unknown experiment {name!r}; known experiments: {', '.join(EXPERIMENTS)}")
    return found
