"""Assembles the local plane from server, components, faults and snapshots."""
