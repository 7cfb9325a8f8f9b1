"""Scenarios of colocation in the cluster."""
