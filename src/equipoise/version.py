"""The version of this package, importable without the rest of it."""

__version__ = "0.1.0"
