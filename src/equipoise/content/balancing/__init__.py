"""Balance hubs that serve the subscribers of content topics by moving subscribers between them. Pure.

The algorithms are those of Cheung and Jacobsen, "Dynamic Load Balancing in Distributed Content-based Publish/Subscribe"
(2006), [1] in the modules of this folder. Edges serve subscribers; a head with its edges is a cluster.

Read `load` (the load that a hub reports), `detection` (when to act), `edge_table` and `head_table` (how two hubs, and
two clusters, agree on a session), `press` (the cost of each subscription), `offload` (which subscribers move), then
`edge_balancer` and `head_balancer`, which combine these for one hub.
"""
