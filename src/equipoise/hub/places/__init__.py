"""Where this hub and its clients are in the network.

Read `place` (of one client), `sides` (what is said of many), `whereabouts` (of one topic), `places` (all of it).
"""
