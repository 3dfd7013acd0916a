"""Measure the capacity of one hub on this machine: the load at which messages become late (ePulsar, 5.4).

Read `cases` (the shapes of load), `driver` (one measured load), `sweep` (all loads), `knees` (which metric predicts
late messages, and its threshold), `advice` (recommended settings).
"""
