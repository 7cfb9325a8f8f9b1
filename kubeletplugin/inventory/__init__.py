"""Inventories: read the node's hardware from the kernel, a vendor's library, or a file that describes a node."""
