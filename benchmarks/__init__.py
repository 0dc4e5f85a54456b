"""Ratios against peers, all taken in one run: ``make bench``. See ``docs/benchmarks.md`` for what each one compares."""
