"""Worlds of bookies: the store, the bookies on simulated disks, writers, recoveries, and what happens to them."""
