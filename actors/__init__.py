"""What waits: one actor a file; job types in ``jobs``; the only modules that do I/O in ``ports``."""
