"""The real agent CLIs against model servers of our own on loopback: ``make test-agents``."""
