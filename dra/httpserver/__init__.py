"""HTTP servers that stay small whoever connects: every connection has a deadline, and their number has a limit.

Used by probes, metrics and the scheduler extender. Limits and what happens at each: docs/reference/limits.md.
"""
