"""Membership of this hub in the cluster through the store: announce, follow plan, hubs, users and specs.

Start with `membership`. `presence` keeps the hub alive in the store, `sight` decides who else is, `joining` how a hub
enters the plan, `rules` which access rules are in force; `running` puts it all together.
"""
