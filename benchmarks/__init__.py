"""Benchmarks: `python -m benchmarks` runs all. Ratios within one run, because machines drift."""
