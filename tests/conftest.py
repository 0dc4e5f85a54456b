"""Rules and fixtures for every test: a limit in time, a seed that can be repeated, a database of its own."""

from __future__ import annotations

import os

import hypothesis

pytest_plugins = ["tests.kit.timelimit", "tests.kit.postgres", "tests.kit.pgbouncer", "tests.kit.logsetup"]

hypothesis.settings.register_profile("default", max_examples=60, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "nightly",
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
