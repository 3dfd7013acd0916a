"""A light smart client, so that thousands fit into one simulation: the real protocol without queues or tasks."""

from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.lab.simulation.light_client.link import DeliveryCounts

__all__ = ["DeliveryCounts", "LightClient"]
