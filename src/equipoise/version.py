"""The version of this package. A module of its own: what shows it need not know the package's face."""

__version__ = "0.1.0"
