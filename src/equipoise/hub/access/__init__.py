"""Connections, logins and permissions of a hub's clients."""
