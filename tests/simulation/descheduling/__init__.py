"""Descheduling under faults: rounds on reports that lag a minute, and migrations that take their time or fail.

A round is a pure function, so a history needs no processes: `cluster` is what really happens on nodes, in workloads and
in jobs, on virtual time, and the descheduler sees of it what its informers would show. Rounds run at their interval,
and at once when a node reports that it is hot, five seconds apart at least.

`safety` looks at each round and each eviction: limits, budgets and places are kept, no pod is in two jobs, and no
replica moves more often than its cool-down allows. `liveness` looks at the end, when nothing fails and no load changes
any more: then no pod moves.

A seed is one history: ``python -m tests.simulation.descheduling SEED`` plays it, ``--seeds N`` plays many.
"""
