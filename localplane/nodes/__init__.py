"""Emulated nodes: kubelets that follow the rules of the real kubelet; by default, nothing is really executed.

Devices and containers are simulated unless the user asks for plugins and processes.
"""

from collections.abc import Iterator


def not_enforced(*, processes: bool = False, plugins: bool = False) -> Iterator[str]:
    """Yield what a real kubelet does and these kubelets do not."""
    yield "nodes: init containers and sidecars, probes, volumes, activeDeadlineSeconds, evictions under memory pressure"
    if processes:
        yield (
            "nodes: containers are processes of this machine and of its user: no images, namespaces, limits, cpusets;"
            " no logs, exec, port-forward"
        )
        yield "nodes: containers get the environment of CDI devices, but no device nodes, mounts, hooks"
    else:
        yield "nodes: images are not pulled, nothing is executed (containers are timers), no logs, exec, port-forward"
        yield "nodes: CDI devices are not injected"
    yield "nodes: pod addresses are not reachable"
    if plugins:
        yield "nodes: claims of a pod that vanished while the kubelets were down are not unprepared by plugins"
        yield "nodes: plugins keep running while their node reboots"
    else:
        yield "nodes: devices of all drivers are simulated; no plugin is called"
    yield "nodes: no events are written for pods that start and stop without errors"
