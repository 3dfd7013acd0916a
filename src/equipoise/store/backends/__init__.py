"""Implementations of the store contract: memory, memory over a network, ZooKeeper."""
