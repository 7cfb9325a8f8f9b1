"""Drivers: from an inventory to published devices, and from a claim to what its containers get."""
