"""The scheduler extender: tells kube-scheduler where reserved capacity is, and binds pods so that none is used twice.

Filter and prioritize are advice, given from a picture that may be a moment old. Bind is the transaction: what it says
yes to is in the books before anything is written, the Reservation's status is compared and swapped before the pod is
bound, and what became of a write that was not answered is found out by reading, never by assuming.
"""
