"""The demo: players on a real cluster, a crowd, hubs that start and stop, a swarm that crosses sites; a report."""

from equipoise.lab.demo.acts import FAVOURITE, GAME, MOVES_ONLY, SHORT, STORY, Act
from equipoise.lab.demo.pace import CONTROLLER_TOML, CONTROLLER_WORDS, HUB_TOML
from equipoise.lab.demo.poller import Watcher
from equipoise.lab.demo.report import report_page, summary_lines
from equipoise.lab.demo.scene import PlanEvent, Scene
from equipoise.lab.demo.screen import LineShow, ScreenShow
from equipoise.lab.demo.sites import DemoSites
from equipoise.lab.demo.story import Mover, Show
from equipoise.lab.demo.swarm import LIMIT_MS, Swarm

__all__ = [
    "CONTROLLER_TOML",
    "CONTROLLER_WORDS",
    "FAVOURITE",
    "GAME",
    "HUB_TOML",
    "LIMIT_MS",
    "MOVES_ONLY",
    "SHORT",
    "STORY",
    "Act",
    "DemoSites",
    "LineShow",
    "Mover",
    "PlanEvent",
    "Scene",
    "ScreenShow",
    "Show",
    "Swarm",
    "Watcher",
    "report_page",
    "summary_lines",
]
