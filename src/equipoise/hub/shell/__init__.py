"""The hub's event loop and kernel calls."""
