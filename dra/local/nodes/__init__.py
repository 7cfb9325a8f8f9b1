"""Emulated nodes: kubelets that obey the rules of the real one, with simulated devices and containers."""

from typing import Final

NOT_ENFORCED: Final = (
    "nodes: init containers and sidecars, probes, volumes, activeDeadlineSeconds of pods, evictions for want of memory",
    "nodes: images are not pulled, nothing is executed (containers are timers), no logs, exec, port-forward",
    "nodes: pod addresses lead nowhere",
    "nodes: devices are simulated, whatever their driver is called; plugins are not asked over their sockets",
    "nodes: events of pods that start and stop without trouble are not written",
)
"""What a real kubelet does and these do not."""
