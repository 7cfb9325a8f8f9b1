"""What hardware the node has: read from the kernel, a vendor's library, or a file that describes any node."""
