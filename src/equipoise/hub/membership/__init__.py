"""This hub among others, through the store: announce it, follow plan, hubs, users and specs, and route accordingly.

Start with `membership`. `sight` decides who is alive, `joining` how a hub enters the plan, `rules` which access rules
are in force.
"""
