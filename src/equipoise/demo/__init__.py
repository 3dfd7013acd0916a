"""A story to watch: players on a real system, a crowd, hubs that come and go, a swarm that crosses sites; a report."""

from equipoise.demo.acts import FAVOURITE, GAME, MOVES_ONLY, SHORT, STORY, Act
from equipoise.demo.moving import Mover
from equipoise.demo.pace import CONTROLLER_TOML, CONTROLLER_WORDS, HUB_TOML
from equipoise.demo.report import report_page, summary_lines
from equipoise.demo.scene import Scene, Told
from equipoise.demo.screen import LineShow, ScreenShow
from equipoise.demo.sites import Region
from equipoise.demo.story import Show
from equipoise.demo.swarm import LIMIT_MS, Swarm
from equipoise.demo.watching import Watcher

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
    "LineShow",
    "Mover",
    "Region",
    "Scene",
    "ScreenShow",
    "Show",
    "Swarm",
    "Told",
    "Watcher",
    "report_page",
    "summary_lines",
]
