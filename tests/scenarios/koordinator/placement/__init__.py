"""Koordinator's scheduler as the model: the same pods on the same nodes and devices, placed by either and compared."""
