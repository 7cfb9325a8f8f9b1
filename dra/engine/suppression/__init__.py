"""Decisions about batch pods on their node: limits of their cgroups, and how far they are held back. Pure.

======================  ==============================================================================================
`batch_pod_limits`      CPU shares, CPU quota and memory limit of each batch pod and its containers
`cpu_weights`           CPU shares as weights of cgroup v2, by the formula that the node uses
`budget`                the CPUs that pods of the class BestEffort may use now
`quota`                 the next CPU quota of the class: shrinks at once, grows in steps
`cpuset_choice`         the CPUs of the class, if it is held back by CPUs in place of a quota
`decide`                which of these applies now: off, held back, held while nothing is sampled, at the floor
`writes`                the values of all cgroups, and an order of writes that the kernel accepts
======================  ==============================================================================================
"""
