"""The node lifecycle shell: node monitoring, NoExecute eviction and pod garbage collection.

The three share one index of pods by node. Only nodes whose lease was observed are monitored by it, because a Node that
a user creates by hand has no kubelet to lose. Tolerated seconds count from when the taint was first observed here.
"""

from typing import Any, Final

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import Conflict, NotFound
from dra.kube.lease_rules import Lease
from dra.kube.resources import NODES, PODS
from dra.kube.workqueue import WorkQueue
from dra.model.meta import PartialObjectMetadata, Uid
from dra.model.nodes import LEASE_NAMESPACE, OUT_OF_SERVICE
from dra.model.pods import DISRUPTION_TARGET
from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.node_lifecycle import rules
from localplane.controller_manager.node_lifecycle.node_types import Node
from localplane.controller_manager.object_control import ObjectControl

RESYNC_SECONDS: Final = 1.0
"""Seconds until a patched node is synced again, if no event comes before."""


class NodeLifecycleController:
    """Marks silent nodes, evicts pods that do not tolerate the taints, and deletes pods of deleted nodes."""

    def __init__(
        self, client: Client, *, nodes: Informer[Node], leases: Informer[Lease], pods: Informer[Pod], clock: Clock
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._node_control = ObjectControl(client, nodes, clock=clock)
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._pods: dict[str, dict[Uid, Pod]] = {}
        self._lease_renewals: dict[str, tuple[str | None, float]] = {}
        self._tainted_since: dict[tuple[str, str], float] = {}
        """Time when a taint of a node was first observed."""
        self._quarantine: dict[str, float] = {}
        nodes.add_event_handler(self._node_changed)
        leases.add_event_handler(self._lease_changed)
        pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile nodes until cancelled; start this when the informers have synced."""
        await self._queue.run(self._sync)

    def _node_changed(self, node: Node, *, deleted: bool) -> None:
        del deleted
        self._queue.add(node.metadata.name)

    def _lease_changed(self, lease: Lease, *, deleted: bool) -> None:
        meta = lease.metadata
        if meta.namespace != LEASE_NAMESPACE:
            return
        if deleted:
            self._lease_renewals.pop(meta.name, None)
        elif self._lease_renewals.get(meta.name, ("", 0.0))[0] != lease.spec.renew_time:
            first = meta.name not in self._lease_renewals
            self._lease_renewals[meta.name] = (lease.spec.renew_time, self._clock.now())
            if first:
                self._queue.add(meta.name)

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        node = pod.spec.node_name
        if not node:
            return
        pods_on_node = self._pods.setdefault(node, {})
        if deleted:
            pods_on_node.pop(pod.metadata.uid, None)
            return
        new = pod.metadata.uid not in pods_on_node
        pods_on_node[pod.metadata.uid] = pod
        known = self._nodes.get(("", node))
        if known is None or (known.no_execute_taints and (new or pod.metadata.deleting)):
            self._queue.add(node)

    async def _sync(self, name: str) -> float | None:
        """Reconcile a node; return when to sync the node again."""
        node, now = self._nodes.get(("", name)), self._clock.now()
        if node is None:
            return await self._collect_orphaned_pods(name)
        self._quarantine.pop(name, None)
        wall = self._clock.wall()
        due_times: list[float] = []
        renewed = self._lease_renewals.get(name)
        if renewed is not None and node.ready:
            due = renewed[1] + rules.NODE_MONITOR_GRACE_PERIOD
            if now < due:
                due_times.append(due)
            elif node.ready != "Unknown":
                body = {"status": {"conditions": rules.unknown_conditions(node, wall=wall)}}
                await self._node_control.patch(node.metadata, body, subresource="status")
                return now + RESYNC_SECONDS
        changed = rules.updated_taints(node, wall=wall)
        if changed is not None:
            await self._node_control.patch(node.metadata, {"spec": {"taints": changed or None}})
            return now + RESYNC_SECONDS
        due_times += await self._evict(node)
        return min(due_times, default=None)

    async def _evict(self, node: Node) -> list[float]:
        """Evict the pods whose toleration of the node's taints has expired; return when further tolerations expire."""
        name, now, due_times = node.metadata.name, self._clock.now(), []
        taints = {(name, f"{taint.key}={taint.value}") for taint in node.no_execute_taints}
        for seen in [entry for entry in self._tainted_since if entry[0] == name and entry not in taints]:
            del self._tainted_since[seen]
        if not taints:
            return []
        since = min(self._tainted_since.setdefault(taint, now) for taint in sorted(taints))
        lost = node.ready != "True" and any(taint.key == OUT_OF_SERVICE for taint in node.no_execute_taints)
        for pod in tuple(self._pods.get(name, {}).values()):
            if pod.metadata.deleting:
                if lost:  # with this taint, a user confirms that nothing runs on the node any longer
                    await self._delete_pod(pod, "DeletionByPodGC", "PodGC: node is out of service", force=True)
                continue
            left = rules.min_toleration_seconds(pod, node.no_execute_taints)
            if left is None or pod.terminal:
                continue
            if since + left <= now:
                await self._delete_pod(
                    pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", force=False
                )
            else:
                due_times.append(since + left)
        return due_times

    async def _collect_orphaned_pods(self, name: str) -> float | None:
        """Delete the pods of a node that does not exist, after a quarantine and a read of the API server."""
        if not self._pods.get(name):
            self._quarantine.pop(name, None)
            return None
        now = self._clock.now()
        due = self._quarantine.setdefault(name, now + rules.QUARANTINE_SECONDS)
        if now < due:
            return due
        try:
            await self._client.get(NODES, ("", name), PartialObjectMetadata)
        except NotFound:
            for pod in tuple(self._pods[name].values()):
                await self._delete_pod(pod, "DeletionByPodGC", "PodGC: node no longer exists", force=True)
        return None

    async def _delete_pod(self, pod: Pod, reason: str, message: str, *, force: bool) -> None:
        """Write the reason for a pod's disruption and delete the pod; `force` is for pods whose kubelet is lost."""
        meta = pod.metadata
        status: dict[str, Any] = {"conditions": [_condition(reason, message, self._wall())]}
        if force and not pod.terminal:
            status["phase"] = "Failed"
        try:
            if not pod.terminal:
                await self._client.merge_patch(
                    PODS,
                    meta.key,
                    {"status": status},
                    model=PartialObjectMetadata,
                    subresource="status",
                    uid=meta.uid,
                    strategic=True,
                )
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace_seconds=0 if force else None)
        except (NotFound, Conflict):
            return

    def _wall(self) -> str:
        return rfc3339(self._clock.wall())


def _condition(reason: str, message: str, wall: str) -> dict[str, Any]:
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": wall,
    }
