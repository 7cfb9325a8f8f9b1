"""Devices: allocations by device, DeviceTaintRules, and the resources of nodes that devices provide."""
