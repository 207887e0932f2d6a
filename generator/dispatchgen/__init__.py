"""Generate a complete dispatch layer from a catalog of backends and operations, and prove that nothing is missing."""

__version__ = "0.1.0"
