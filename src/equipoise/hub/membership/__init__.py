"""This hub among others, through the store: announce it, follow plan, hubs, users and specs, and route accordingly.

Start with `membership`. `presence` keeps the hub alive in the store, `sight` decides who else is, `joining` how a hub
enters the plan, `rules` which access rules are in force; `running` puts it all together.
"""
