"""A story to watch: players on a real system, a crowd, hubs that come and go, and a report of it."""

from equipoise.demo.acts import FAVOURITE, GAME, MOVES_ONLY, SHORT, STORY, Act
from equipoise.demo.moving import Mover
from equipoise.demo.pace import CONTROLLER_TOML, CONTROLLER_WORDS, HUB_TOML
from equipoise.demo.report import report_page, summary_lines
from equipoise.demo.scene import Scene, Told
from equipoise.demo.screen import LineShow, ScreenShow
from equipoise.demo.story import Show
from equipoise.demo.watching import Watcher

__all__ = [
    "CONTROLLER_TOML",
    "CONTROLLER_WORDS",
    "FAVOURITE",
    "GAME",
    "HUB_TOML",
    "MOVES_ONLY",
    "SHORT",
    "STORY",
    "Act",
    "LineShow",
    "Mover",
    "Scene",
    "ScreenShow",
    "Show",
    "Told",
    "Watcher",
    "report_page",
    "summary_lines",
]
