"""Claims that the driver of a node refuses to prepare although another node could, and the eviction of their pods."""
