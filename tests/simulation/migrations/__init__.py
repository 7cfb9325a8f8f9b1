"""Migrations under faults: a whole cluster with controller, extender, scheduler and descheduler in virtual time.

Whatever fails, no pod is evicted before its capacity, and its devices, are held on another node. `safety` looks at each
eviction at the moment at which the API server grants it, and at each write; `liveness` looks at the end, when nothing
fails any more: all jobs have ended, and nothing that a job created is left.

A seed is one history: ``python -m tests.simulation.migrations SEED`` plays it, ``--seeds N`` plays many.
"""
