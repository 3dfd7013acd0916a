"""Network coordinates of this hub and its clients.

Read `client_location` (of one client), `topic_locations` (of the clients of one topic), `location_tracker` (of all
active topics, and the columns of records), `probes` (the hub's own coordinate), `locations` (entry point for the hub
and its clients).
"""
