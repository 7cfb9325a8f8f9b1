"""Cgroups of pods and containers: reads, plans and writes the kernel's trees of cgroups, v1 and v2.

`cgroup_names`, `cpuset_plan` and `cpu_hotplug` are pure; `cgroup_files` reads and writes single files, `hierarchy` the
cpusets of all cgroups, `pod_cgroups` finds the cgroups of pods in each hierarchy, and `cgroup_watcher` watches for new
ones. No module of this package knows about claims.
"""
