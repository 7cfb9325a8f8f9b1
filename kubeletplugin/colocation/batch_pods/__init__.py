"""Batch pods on their node: writes the limits of their cgroups, and holds the class BestEffort back.

`dra.engine.suppression` decides; `cgroup_values` reads and writes the kernel's files, `batch_pods` does so each second,
`suppression_mark` remembers on the node that a quota is to be lifted. Cpusets are written by the CPU driver.
"""
