"""The papers' experiments, each a scenario and a few lines that say what is claimed.

`dynamoth` and its like hold the experiments of one paper. `cluster`, `players` and `control` are the world they run in:
real hubs on simulated hosts, light clients that speak the real protocol, the real policies. `result`, `figures`,
`report` and `keeping` tell what came of it.
"""

from equipoise.lab.experiments.experiment import Experiment, Findings, Progress, silent
from equipoise.lab.experiments.registry import EXPERIMENTS, experiments_by_name
from equipoise.lab.experiments.report import terminal
from equipoise.lab.experiments.result import Claim, Figure, Line, Marks, Panel, Result, Size, to_object

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Figure",
    "Findings",
    "Line",
    "Marks",
    "Panel",
    "Progress",
    "Result",
    "Size",
    "experiments_by_name",
    "silent",
    "terminal",
    "to_object",
]
