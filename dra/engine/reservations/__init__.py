"""The engine of reservations: capacity of nodes that is held for pods which need not exist yet.

A reservation holds amounts on one node; its owner pods are its *consumers*. One rule carries the arithmetic: a
reservation and its consumers together are charged ``max(held, consumed)``, resource by resource. So no other pod gets
what is held, what a consumer takes beyond its reservation is charged as well, and what a consumer releases is held
again.

The rules are those of Koordinator's scheduler plugin Reservation; KEP-notes.md lists each deviation and its reason.
"""
