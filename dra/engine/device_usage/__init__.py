"""The use of devices over time: what is held, what of it is used, and since when the rest is idle."""
