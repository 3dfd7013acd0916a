"""Worlds of bookies: store, bookies on simulated disks, writers, recoveries and faults."""
