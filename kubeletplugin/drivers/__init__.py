"""Drivers: turn an inventory into published devices, and a claim's allocation into container edits."""
