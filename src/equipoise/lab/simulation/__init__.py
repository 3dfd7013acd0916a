"""Run hub, client, store and controller unchanged, in virtual time, on a faulty network.

`Simulation` is the entry point. The names exported here import only the standard library, `equipoise.errors` and
`equipoise.disk`, so that a bare interpreter of any supported version can replay a seed of its own tests. Import
`runner`, which runs hubs and clients in a simulation and checks them, by its module name.
"""

from equipoise.lab.simulation.cpu import CpuSpec
from equipoise.lab.simulation.disk import SimulatedDisk
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.loop import SimulatedLoop
from equipoise.lab.simulation.topology import Cities, Lan, Matrix, Sites, Star, Topology, matrix_from_file
from equipoise.lab.simulation.world import Simulation

__all__ = [
    "Cities",
    "CpuSpec",
    "Host",
    "Lan",
    "LinkSpec",
    "Matrix",
    "SimulatedDisk",
    "SimulatedLoop",
    "Simulation",
    "Sites",
    "Star",
    "Topology",
    "matrix_from_file",
]
