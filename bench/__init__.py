"""Benchmarks: each data path beside a floor measured in the same run."""
