"""Benchmarks: `make benchmark` runs them all. Ratios within one run, because machines drift."""
