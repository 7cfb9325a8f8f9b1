"""Cpusets of containers: reads, plans and writes the kernel's tree of cgroups, v1 and v2.

`cgroup_names`, `cpuset_plan` and `cpu_hotplug` are pure; `hierarchy` and `cgroup_watcher` access the kernel. No module
of this package knows about claims.
"""
