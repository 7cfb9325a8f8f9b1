"""From the pools of a driver to ResourceSlices: `desired` and `diff` decide, `publisher` does it."""
