"""Find an experiment by its name, or all of a paper by the paper's."""

from __future__ import annotations

from equipoise.errors import SettingsError
from equipoise.lab.experiments.dynamoth import DYNAMOTH
from equipoise.lab.experiments.epulsar import EPULSAR
from equipoise.lab.experiments.experiment import Experiment
from equipoise.lab.experiments.pulsar_scale_up import PULSAR

__all__ = ["EXPERIMENTS", "experiments_by_name"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*DYNAMOTH, *EPULSAR, *PULSAR)
}


def experiments_by_name(name: str) -> list[Experiment]:
    """The experiment, or all of the paper, with this name. Raises SettingsError that lists what there is."""
    if name in EXPERIMENTS:
        return [EXPERIMENTS[name]]
    found = [experiment for experiment in EXPERIMENTS.values() if experiment.page == name]
    if not found:
        raise SettingsError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return found
