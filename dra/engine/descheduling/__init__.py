"""Descheduling: which pods should run on other nodes, decided on a snapshot of the cluster.

A round takes a `Snapshot`, asks each plugin of each profile for candidates, and passes each candidate through the
filters, limits and budgets. An accepted candidate is moved in the snapshot at once: the next question sees it on the
node that is to hold its place. Nothing here writes: the evictor of the profile carries the decisions out.
"""
