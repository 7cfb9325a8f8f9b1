"""Division of L3 cache and memory bandwidth between QoS classes, through the kernel's resctrl filesystem."""
