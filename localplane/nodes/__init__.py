"""Emulated nodes: kubelets that follow the rules of the real kubelet; by default, nothing is really executed.

Devices and containers are simulated unless the user asks for plugins and processes.
"""

from collections.abc import Iterator


def not_enforced(*, processes: bool = False, plugins: bool = False) -> Iterator[str]:
    """Yield what a real kubelet does and these kubelets do not."""
    yield "nodes: init containers and sidecars, probes, volumes, activeDeadlineSeconds, evictions for want of memory"
    if processes:
        yield (
            "nodes: containers are processes of this machine and of its user: no images, namespaces, limits, cpusets;"
            " no logs, exec, port-forward"
        )
        yield "nodes: of CDI devices containers get the environment, and no device nodes, mounts, hooks"
    else:
        yield "nodes: images are not pulled, nothing is executed (containers are timers), no logs, exec, port-forward"
        yield "nodes: CDI devices are injected nowhere"
    yield "nodes: pod addresses lead nowhere"
    if plugins:
        yield "nodes: what a plugin prepared for a pod that vanished while the kubelets were down is not given back"
        yield "nodes: plugins run on while their node reboots"
    else:
        yield "nodes: devices are simulated, whatever their driver is called; plugins are not asked over their sockets"
    yield "nodes: events of pods that start and stop without trouble are not written"
