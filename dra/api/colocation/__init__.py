"""Colocation as people and machines write it: NodeMetrics, the ConfigMap with the strategies, names."""
