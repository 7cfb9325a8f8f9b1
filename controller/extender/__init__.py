"""The scheduler extender: reports reserved capacity to kube-scheduler and binds pods so that no capacity is used twice.

Filter and prioritize are advice, from a cache that may be slightly stale. Bind is the transaction: an admitted pod is
in the accounting before anything is written, the Reservation's status is compared and swapped before the pod is bound,
and the outcome of an unanswered write is determined by reading, never by assuming.
"""
