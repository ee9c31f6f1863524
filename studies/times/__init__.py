"""Benchmarks: `python -m studies.times` runs all. Ratios within one run, because machines drift."""
