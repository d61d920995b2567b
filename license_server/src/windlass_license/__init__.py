"""Issue, install, enforce and audit licenses by GPU UUID."""

__version__ = "0.2.0"
