"""The engine of reservations: capacity of nodes that is held for pods which need not exist yet.

A reservation holds amounts on one node for its owner pods. One rule carries the arithmetic: a reservation and its owner
pods together request ``max(held, allocated)``, resource by resource. So no other pod gets what is held, what an owner
pod takes beyond its reservation counts as well, and what an owner pod releases is held again.

The rules are those of Koordinator's scheduler plugin Reservation; KEP-notes.md lists each deviation and its reason.
"""
