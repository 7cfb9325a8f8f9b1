"""The informers of the claim loop: claims, the pods that use claims, nodes."""

from collections.abc import Callable

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODES, PODS
from dra.kube.store import Synced
from dra.model import annotations
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key
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
    """Three reflectors that feed the cache of claims, and call ``on_change`` after each batch.

    `run` raises ServerRestoredError when the cached state is void because of a restored API server.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: the cache, and whoever else listens
        self,
        client: Client,
        *,
        cache: ClaimCache,
        clock: Clock,
        on_change: Callable[[], None],
        on_claim_add: Callable[[Key], None] = lambda _: None,
        on_claim_delete: Callable[[Key], None] = lambda _: None,
        on_pod: Callable[[Pod], None] = lambda _: None,
        on_pod_delete: Callable[[Pod], None] = lambda _: None,
    ) -> None:
        """Create the informers; ``on_claim_add`` and ``on_pod`` are called for updates, too.

        ``on_pod_delete`` is called for pods that do not use claims any more, too.
        """
        self._cache = cache
        self._clock = clock
        self._on_claim_add = on_claim_add
        self._on_claim_delete = on_claim_delete
        self._on_pod_change = on_pod
        self._on_pod_delete = on_pod_delete
        self.claims = Reflector(
            client,
            CLAIMS,
            WatchedClaim,
            handler=EventHandlerFuncs[WatchedClaim](
                on_upsert=self._on_claim,
                on_delete=self._on_claim_deleted,
                on_sync=self._on_claims_listed,
                on_batch_end=on_change,
            ),
            clock=clock,
        )
        self.pods = Reflector(
            client,
            PODS,
            Pod,
            handler=EventHandlerFuncs[Pod](
                on_upsert=self._on_pod,
                on_delete=self._on_pod_deleted,
                on_leave=self._on_pod_left,
                on_sync=self._on_pods_listed,
                on_batch_end=on_change,
            ),
            keep=concerns_claims,
            clock=clock,
        )
        self.nodes = Reflector(
            client,
            NODES,
            Node,
            handler=EventHandlerFuncs[Node](
                on_upsert=lambda node: cache.observe_node(node, now=clock.now()),
                on_delete=lambda node: cache.forget_node(node.metadata.name),
                on_sync=self._on_nodes_listed,
                on_batch_end=on_change,
            ),
            clock=clock,
        )
        # Claims before pods: a pod without its claim in the cache looks like one whose claim is missing.
        super().__init__(self.nodes, self.claims, self.pods)

    def _on_claim(self, claim: ResourceClaim) -> None:
        self._cache.observe_claim(claim, now=self._clock.now())
        self._on_claim_add(claim.metadata.key)

    def _on_claim_deleted(self, claim: ResourceClaim) -> None:
        self._cache.forget_claim(claim.metadata.key, claim.metadata.uid)
        self._on_claim_delete(claim.metadata.key)

    def _on_pod(self, pod: Pod) -> None:
        annotations.trim_annotations(pod.metadata)  # the reflector stores this object, too
        self._cache.observe_pod(pod, now=self._clock.now())
        self._on_pod_change(pod)

    def _on_pod_deleted(self, pod: Pod) -> None:
        self._cache.observe_pod_deleted(pod, now=self._clock.now())
        self._on_pod_delete(pod)

    def _on_pod_left(self, pod: Pod) -> None:
        self._cache.forget_pod(pod.metadata.uid, certain=False)
        self._on_pod_delete(pod)

    def _on_claims_listed(self, synced: Synced) -> None:
        listed = {key: claim.metadata.uid for key, claim in self.claims.objects.items()}
        self._cache.claims_listed(listed, synced.resource_version)

    def _on_pods_listed(self, synced: Synced) -> None:
        listed = {pod.metadata.uid for pod in self.pods.objects.values()}
        self._cache.pods_listed(listed, synced.resource_version)

    def _on_nodes_listed(self, synced: Synced) -> None:
        self._cache.nodes_listed({name for _, name in self.nodes.objects}, synced.resource_version)
