"""The kubelet plugin on a real node: what users see of it, and what it survives."""
