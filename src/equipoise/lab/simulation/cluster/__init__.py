"""Worlds of several hubs, changing plans and faults between them."""
