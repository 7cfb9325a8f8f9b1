"""The parts that answer the scheduler without an API server: a binder, informers and a cache with nodes."""

from controller.extender.binding_limiter import BindingLimiter
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.clock import SYSTEM
from dra.model.meta import ObjectMeta
from dra.model.scheduling import SchedulerNode, SchedulerNodeStatus


class Binder:
    def __init__(self):
        self.calls = []
        self.fails = None
        self.is_active = True
        self.limiter = BindingLimiter(clock=SYSTEM, seconds=4.0)

    async def bind(self, call):
        self.calls.append(call)
        if self.fails is not None:
            raise self.fails


class NodeMetrics:
    def subscribe(self, observe, forget, **_):
        self.observe, self.forget = observe, forget


class Informers:
    def __init__(self):
        self.node_metrics = NodeMetrics()
        self.reasons = []

    def not_ready_reasons(self):
        return self.reasons


def cache_of(**cpus):
    """Return a cache with nodes: name → CPUs."""
    filled = SchedulerCache()
    for name, cpu in cpus.items():
        status = SchedulerNodeStatus(allocatable={"cpu": cpu, "memory": "8Gi", "pods": "110"})
        filled.observe_node(SchedulerNode(metadata=ObjectMeta(name=name), status=status))
    return filled
