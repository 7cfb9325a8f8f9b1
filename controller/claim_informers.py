"""The informers of the claim loop: claims, the pods that use claims, nodes."""

from collections.abc import Callable

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODES, PODS
from dra.kube.store import Change, Deleted, ServerRestored, ServerRestoredError, Synced, Upserted
from dra.model import annotations
from dra.model.claims import ResourceClaim
from dra.model.nodes import Node
from dra.model.pods import Pod


def concerns_claims(pod: Pod) -> bool:
    """Return whether to cache a pod: it uses claims, or has this project's scheduling gate.

    All other pods of a cluster cost no memory.
    """
    return bool(
        pod.spec.resource_claims
        or pod.status.extended_resource_claim_status
        or (pod.spec.scheduling_gates and SCHEDULING_GATE in pod.gates)
    )


class ClaimInformers(Informers):
    """Three reflectors that feed the cache of claims, and call ``woken`` after each batch.

    `run` raises ServerRestoredError when the cached state is void because of a restored API server.
    """

    def __init__(self, client: Client, *, world: ClaimCache, clock: Clock, woken: Callable[[], None]) -> None:
        self._world = world
        self._clock = clock
        self._woken = woken
        self.claims = Reflector(client, CLAIMS, ResourceClaim, sink=self._claims, clock=clock)
        self.pods = Reflector(client, PODS, Pod, sink=self._pods, keep=concerns_claims, clock=clock)
        self.nodes = Reflector(client, NODES, Node, sink=self._nodes, clock=clock)
        # Claims before pods: a pod without its claim in the cache looks like one whose claim is missing.
        super().__init__(self.nodes, self.claims, self.pods)

    def _claims(self, changes: list[Change[ResourceClaim]]) -> None:
        now = self._clock.now()
        for change in changes:
            match change:
                case Upserted(obj=claim):
                    self._world.observe_claim(claim, now=now)
                case Deleted(obj=claim):
                    self._world.forget_claim(claim.metadata.key, claim.metadata.uid)
                case Synced(resource_version=version):
                    there = {key: claim.metadata.uid for key, claim in self.claims.objects.items()}
                    self._world.claims_listed(there, version)
                case ServerRestored():
                    raise ServerRestoredError(change)
        self._woken()

    def _pods(self, changes: list[Change[Pod]]) -> None:
        now = self._clock.now()
        for change in changes:
            match change:
                case Upserted(obj=pod):
                    annotations.trim_annotations(pod.metadata)  # the reflector stores this object, too
                    self._world.observe_pod(pod, now=now)
                case Deleted(obj=pod, certain=True):
                    self._world.pod_deleted(pod, now=now)
                case Deleted(obj=pod):
                    self._world.forget_pod(pod.metadata.uid, certain=False)
                case Synced(resource_version=version):
                    self._world.pods_listed({pod.metadata.uid for pod in self.pods.objects.values()}, version)
                case ServerRestored():
                    raise ServerRestoredError(change)
        self._woken()

    def _nodes(self, changes: list[Change[Node]]) -> None:
        now = self._clock.now()
        for change in changes:
            match change:
                case Upserted(obj=node):
                    self._world.observe_node(node, now=now)
                case Deleted(obj=node):
                    self._world.forget_node(node.metadata.name)
                case Synced(resource_version=version):
                    self._world.nodes_listed({name for _, name in self.nodes.objects}, version)
                case ServerRestored():
                    raise ServerRestoredError(change)
        self._woken()
