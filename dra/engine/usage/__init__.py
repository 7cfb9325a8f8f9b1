"""The use of a node and its pods: the kernel's counters become samples, and samples the report in the NodeMetric.

Pure: `kubeletplugin.colocation.usage` reads the kernel and the clock. CPUs are in milli-CPUs and memory is in bytes
wherever no other unit is in the name.
"""
