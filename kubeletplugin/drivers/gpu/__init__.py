"""``gpu.reserve.dra``: GPUs, real or simulated."""
