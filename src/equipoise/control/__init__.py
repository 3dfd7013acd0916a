"""The loop around the planner: read facts, decide, write the store; lead or follow."""

from equipoise.control.controller import Controller, Round, Status, ViewSource
from equipoise.control.provision import NoProvisioner, Provisioner, StoreProvisioner
from equipoise.control.provision_command import CommandProvisioner
from equipoise.control.rounds import State
from equipoise.control.settings import ControllerSettings

__all__ = [
    "CommandProvisioner",
    "Controller",
    "ControllerSettings",
    "NoProvisioner",
    "Provisioner",
    "Round",
    "State",
    "Status",
    "StoreProvisioner",
    "ViewSource",
]
