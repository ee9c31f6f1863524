"""Benchmarks: `python -m studies.times.sorters`, or another. Ratios within one run, because machines drift."""
