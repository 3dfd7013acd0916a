"""Filters of clients at a hub: who asks for what of which topic, and who gets a message. Pure."""
