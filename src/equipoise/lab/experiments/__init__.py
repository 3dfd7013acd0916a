"""The papers' experiments: a table of them (`registry`), and one frame that runs them (`experiment`).

`cloud_region`, `run_game`, `channel` and the modules named after a paper contain the worlds: real hubs on simulated
hosts, the real controller and store, light clients with the real protocol. `report` shows and stores the results.
"""

from equipoise.lab.experiments.experiment import Experiment, Findings, Progress, run, silent
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
    "run",
    "silent",
    "terminal",
    "to_object",
]
