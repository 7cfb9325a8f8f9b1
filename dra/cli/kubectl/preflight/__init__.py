"""``kubectl dra preflight`` checks whether a cluster is ready for dra-reserve."""
