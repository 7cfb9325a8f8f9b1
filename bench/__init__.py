"""Measurements: always against a peer or a baseline in the same run, reported as ratios of medians."""
