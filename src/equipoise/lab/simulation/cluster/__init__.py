"""Worlds of several hubs: hubs among others, plans that change, and everything that can go wrong between them."""
