"""The kubelets of the nodes, as far as batch resources concern them: they admit pods by what their Nodes offer.

A kubelet that restarts admits all pods anew, running ones, too: those for which the Node does not offer enough are
failed. This is why no less may be offered than what pods hold.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dra.kube.client import Client
from dra.kube.errors import AlreadyExists, ApiError
from dra.kube.resources import NODES, PODS
from dra.model.meta import PartialObjectMetadata
from localplane.objects import Object
from tests.simulation.colocation import nodes
from tests.simulation.colocation.initial_state import SimulatedNode

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

INTERVAL: Final = 0.5
STOP_SECONDS: Final = 2.0
"""Seconds from the deletion of a pod until its containers have ended."""

NAMES: Final = (*nodes.BATCH, "cpu", "memory")


class SimulatedKubelets:
    """The kubelets of all nodes in one component."""

    def __init__(self, cluster: "ColocatedCluster", client: Client) -> None:
        self._cluster = cluster
        self._client = client
        self._stopping: dict[str, float] = {}
        """Uid of a pod that is being deleted → time at which its containers have ended."""

    async def run(self) -> None:
        """Register the nodes, then look after their pods until cancelled; each start is a restart."""
        for node in self._cluster.initial_state.nodes:
            self._cluster.restart_kubelet(node.name)
            await self._persist(self._register, node)
        while True:
            for node in self._cluster.initial_state.nodes:
                await self._sync(node.name)
            await asyncio.sleep(INTERVAL)

    async def _persist(self, act: Any, *arguments: Any) -> None:
        """Try until the API server has accepted a request."""
        while True:
            try:
                await act(*arguments)
            except ApiError:
                await asyncio.sleep(INTERVAL)
            else:
                return

    async def _register(self, node: SimulatedNode) -> None:
        amounts = {"cpu": str(node.cpus), "memory": f"{node.gibibytes}Gi", "pods": "110"}
        try:
            await self._client.create(NODES, {"metadata": {"name": node.name}, "spec": {}}, model=PartialObjectMetadata)
        except AlreadyExists:
            if (self._cluster.find(NODES, "", node.name) or {}).get("status", {}).get("capacity"):
                return
        ready = [{"type": "Ready", "status": "True"}]
        untainted = {"spec": {"taints": None}}
        await self._client.merge_patch(NODES, ("", node.name), untainted, model=PartialObjectMetadata)
        await self._client.merge_patch(
            NODES,
            ("", node.name),
            {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}},
            model=PartialObjectMetadata,
            subresource="status",
        )

    async def _sync(self, name: str) -> None:
        node = self._cluster.find(NODES, "", name)
        if node is None:
            return
        admitted = self._cluster.admitted[name]
        pods = nodes.pods_on(self._cluster, name)
        admitted &= {pod["metadata"]["uid"] for pod in pods}
        offered, taken = nodes.amounts_of(node), dict.fromkeys(NAMES, 0)
        for pod in pods:
            requests = nodes.all_requests(pod)
            uid = pod["metadata"]["uid"]
            try:
                if pod["metadata"].get("deletionTimestamp"):
                    await self._stop(pod)
                elif uid not in admitted:
                    fits = all(taken[each] + requests[each] <= offered[each] for each in NAMES if requests[each])
                    await self._admit(pod, fits=fits)
                    if not fits:
                        continue
                    admitted.add(uid)
            except ApiError:
                pass  # the next round tries again
            taken = {each: taken[each] + requests[each] for each in NAMES}

    async def _admit(self, pod: Object, *, fits: bool) -> None:
        if fits and nodes.has_started(pod):
            return
        status = {"phase": "Running", "startTime": self._cluster.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")}
        if not fits:
            self._cluster.effects["a kubelet refuses a pod"] += 1
            status |= {"phase": "Failed", "reason": "OutOfbatch-cpu"}
        await self._client.merge_patch(
            PODS,
            (pod["metadata"]["namespace"], pod["metadata"]["name"]),
            {"status": status},
            model=PartialObjectMetadata,
            subresource="status",
            uid=pod["metadata"]["uid"],
        )

    async def _stop(self, pod: Object) -> None:
        metadata, now = pod["metadata"], self._cluster.clock.now()
        if now >= self._stopping.setdefault(metadata["uid"], now + STOP_SECONDS):
            key = (metadata["namespace"], metadata["name"])
            await self._client.delete(PODS, key, uid=metadata["uid"], grace_seconds=0)
            del self._stopping[metadata["uid"]]
