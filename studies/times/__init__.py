"""Benchmarks: `python -m studies.times NAME`. Ratios within one run, because machines drift."""
