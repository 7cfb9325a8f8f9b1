"""The driver ``gpu.reserve.dra``: GPUs, real or simulated."""
