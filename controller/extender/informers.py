"""The objects that the extender keeps in memory: nodes, Reservations, budgets, quotas, and unfinished pods."""

from typing import Any, Final

from dra.engine.colocation.watched import WatchedNodeMetric, trim_metric
from dra.engine.scheduling.scheduler_cache import is_unfinished
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.resources import (
    NODE_METRICS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
)
from dra.kube.shared_informers import SharedInformer, SharedInformers
from dra.model.meta import UnstructuredObject
from dra.model.preemption import PodDisruptionBudget
from dra.model.quotas import ResourceQuota
from dra.model.scheduling import SchedulerNode, SchedulerPod


class ExtenderInformers(SharedInformers):
    """The informers of the extender.

    PodDisruptionBudgets are not waited for: they matter only where other victims than kube-scheduler's are chosen, and
    a process with the permissions of an older release may not list them. Nor are ResourceQuotas: Reservations are
    placed without a bound while these cannot be listed. Neither are NodeMetrics, which are watched for
    load-aware scheduling alone: it says nothing about a node without one.
    """

    def __init__(self, client: Client, *, clock: Clock) -> None:
        super().__init__(client, clock=clock)
        self.nodes = self.informer(NODES, SchedulerNode)
        self.reservations = self.informer(RESERVATIONS, UnstructuredObject)
        self.pods = self.informer(PODS, SchedulerPod, keep=is_unfinished)
        self.budgets = self.informer(POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
        self.quotas = self.informer(RESOURCE_QUOTAS, ResourceQuota)
        self.node_metrics = self.informer(NODE_METRICS, WatchedNodeMetric, prepare=trim_metric)
        self._needed: Final[tuple[SharedInformer[Any], ...]] = (self.nodes, self.reservations, self.pods)

    async def wait_for_sync(self) -> None:
        """Wait until everything that filter and bind need is listed."""
        for informer in self._needed:
            await informer.wait_for_sync()

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of each informer that filter and bind need; empty when ready."""
        return [text for informer in self._needed if (text := informer.staleness())]
