"""The embedded control plane: an API server that kubectl talks to, a scheduler, nodes and workloads, in one process."""
