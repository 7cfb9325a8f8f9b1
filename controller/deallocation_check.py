"""The live read before deallocating a claim whose release others triggered: a pod may be bound unknown to the cache."""

from collections.abc import AsyncIterator
from typing import Final

from dra.engine.claims.actions import Deallocate
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.resources import NODES, PODS
from dra.model.meta import Key
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class BoundMeanwhileError(Exception):
    """A live read showed a pod that is bound, or about to be: the claim is not deallocated."""


class DeallocationCheck:
    """A live check whether a deallocation is safe; its reads also update the cache."""

    def __init__(self, client: Client, *, cache: ClaimCache, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock

    async def check(self, write: Deallocate) -> None:
        """Raise BoundMeanwhileError if any pod of the claim is bound, or nominated by a binding cycle.

        Pods that were given up do not count unless the kubelet of their node reports in; nor do nominations that are
        older than any binding cycle.
        """
        if not write.confirm:
            return
        given_up = set()
        async for pod in self._pods(write.claim):
            if pod.metadata.uid in write.given_up:
                given_up.add(pod.spec.node_name)
            elif pod.bound_or_nominated and not _is_stale_nomination(pod, write):
                raise BoundMeanwhileError(f"claim {'/'.join(write.claim)}: pod {pod.metadata.name} is being bound")
        if given_up:
            await self._check_nodes(write.claim, given_up)

    async def _pods(self, claim: Key) -> AsyncIterator[Pod]:
        namespace, name = claim
        selection = Selection(namespace=namespace, fields=_UNFINISHED)
        async for page in self._client.list_pages(PODS, Pod, selection=selection):
            if page.unreadable:
                raise BoundMeanwhileError(f"claim {'/'.join(claim)}: pod {page.unreadable[0]} cannot be read")
            for pod in page.items:
                if name in claim_names(pod):
                    self._cache.observe_pod(pod, now=self._clock.now())
                    yield pod

    async def _check_nodes(self, claim: Key, names: set[str]) -> None:
        async for page in self._client.list_pages(NODES, Node):
            for node in page.items:
                if node.metadata.name in names:
                    self._cache.observe_node(node, now=self._clock.now())
                    if node.ready:
                        raise BoundMeanwhileError(f"claim {'/'.join(claim)}: node {node.metadata.name} reports in")


def _is_stale_nomination(pod: Pod, write: Deallocate) -> bool:
    return not pod.spec.node_name and (pod.metadata.uid, pod.status.nominated_node_name) in write.nominated
