"""Division of L3 cache and memory bandwidth on the node: reads and writes what `dra.engine.resctrl` decides.

`division` is the part of the agent, and `group_writer` its hand; `resctrl_files` has the kernel's filesystem,
`task_lists` the threads of pods, and `group_record` which groups are ours.
"""
