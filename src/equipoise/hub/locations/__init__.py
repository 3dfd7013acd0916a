"""Where this hub and its clients are in the network.

Read `place` (of one client), `sides` (what is said of many), `whereabouts` (of one topic), `renewing` (of all topics in
use), `probing` (how the hub finds its own), `places` (what the hub knows of itself and its clients).
"""
