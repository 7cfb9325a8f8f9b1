"""The live read before deallocating a claim whose release others triggered: a pod may be bound unknown to the cache."""

from typing import Final

from dra.engine.claims.actions import Deallocate
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.deallocation_check import DeallocationCheck
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.resources import NODES, PODS
from dra.model.nodes import Node
from dra.model.pods import Pod

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class DeallocationReader:
    """A reader of what a deallocation depends on; its reads also update the cache."""

    def __init__(self, client: Client, *, cache: ClaimCache, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock

    async def check(self, write: Deallocate) -> None:
        """Raise BoundMeanwhileError if the deallocation is not safe; see `dra.engine.claims.deallocation_check`."""
        if not write.confirm:
            return
        check = DeallocationCheck(write)
        selection = Selection(namespace=write.claim[0], fields=_UNFINISHED)
        async for pods in self._client.list_pages(PODS, Pod, selection=selection):
            if pods.unreadable:
                raise check.objection(f"pod {pods.unreadable[0]} cannot be read")
            for pod in check.users(pods.items):
                self._cache.observe_pod(pod, now=self._clock.now())
                check.check_pod(pod)
        if not check.needs_nodes:
            return
        async for nodes in self._client.list_pages(NODES, Node):
            for node in check.nodes_to_check(nodes.items):
                self._cache.observe_node(node, now=self._clock.now())
                check.check_node(node)
