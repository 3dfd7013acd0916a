"""The commands a hub executes: a table of specs, and one file of handlers per concern."""

from equipoise.hub.commands.keys import KEY_COMMANDS
from equipoise.hub.commands.spec import CommandSpec
from equipoise.hub.commands.table import COMMANDS

__all__ = ["COMMANDS", "KEY_COMMANDS", "CommandSpec"]
