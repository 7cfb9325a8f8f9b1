"""Serves a live, read-only page about claims, devices and Reservations (``kubectl dra ui``)."""
