"""Emulated nodes: kubelets that obey the rules of the real one, with simulated devices and containers."""
