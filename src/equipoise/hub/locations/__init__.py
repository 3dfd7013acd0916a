"""Network coordinates of this hub and its clients.

Read `client_location` (of one client), `topic_locations` (of the clients of one topic), `location_tracker` (of all
topics in use, and what records say of it), `probes` (how the hub finds its own), `locations` (what the hub knows of
itself and its clients).
"""
