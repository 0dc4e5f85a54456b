"""The version, readable without importing metadata machinery (42 ms)."""

VERSION = "0.1.0"
__version__ = VERSION
