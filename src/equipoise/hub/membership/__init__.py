"""Membership of this hub in the cluster through the store: announce the hub, follow plan, hubs, users and specs.

Start with `membership`. `registration` keeps the hub's nodes in the store, `liveness` concludes which other hubs are
alive, `join` adds the hub to the plan, `acl_sync` and `spec_sync` apply users and specs; `process` runs all of it.
"""
