"""Reservations on a real scheduler with our extender, in a cluster of their own: its scheduler knows the extender."""
