"""Colocation in the cluster: batch resources, NodeMetrics and profiles."""
