"""Filters at a hub: subscriptions, delivery and balancing. Pure."""
