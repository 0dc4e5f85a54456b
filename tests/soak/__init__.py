"""Faults for many minutes, while one supervisor is watched for what grows: memory, tasks, descriptors, connections."""
