"""HTTP servers with bounded cost: every connection has a deadline, and the number of connections has a limit.

Used by probes, metrics and the scheduler extender. Limits and what happens at each: docs/reference/limits.md.
"""
