"""Cpusets of containers: the kernel's tree of cgroups read, planned and written; cgroup v1 and v2.

`naming` and `narrowing` decide, `hierarchy` and `watching` touch the kernel. Nothing here knows of claims.
"""
