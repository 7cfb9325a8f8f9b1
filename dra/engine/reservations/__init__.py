"""Reservations: capacity that is held for pods which do not exist yet. Who may have it, where it is, until when.

A reservation is a *holding* on a node, its owner pods are *consumers* of it. One rule carries the arithmetic: a
reservation and its consumers together are charged ``max(held, consumed)``, resource by resource. So nobody gets what is
held for others, what a consumer takes beyond its reservation is charged as well, and what it gives back is held again.
(specs/koordinator.md A; where it is called a bug there, it is done differently here: KEP-notes.md.)
"""
