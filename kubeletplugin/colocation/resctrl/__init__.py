"""Division of L3 cache and memory bandwidth on the node: reads and writes what `dra.engine.resctrl` decides.

`division` is the part of the agent; `resctrl_files` has the kernel's filesystem, `pod_threads` the threads of pods, and
`group_record` which groups are ours.
"""
