"""Reads nodes live for the claims that ask for it (`LookUpNode`): one read answers all claims that ask about a node.

A hundred seconds after a controller has taken over, every claim with a guard asks about its node at the same moment.
The reads have a loop of their own and the priority of tidying up, as the pruning of lists: no decision about another
claim waits for thousands of them, and neither do the prunes of claims, which hold their workers until they are sent.
"""

from typing import Final

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims import live_reads
from dra.engine.claims.actions import LookUpNode
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.node_questions import NodeQuestions
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.client import Selection
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import NODES
from dra.model.nodes import Node

BATCH_DELAY: Final = 1.0
"""Seconds until a node is read that a claim has asked about: thousands of claims are decided on one after another, and
what asks has waited for a hundred seconds."""


class NodeReads(Reconciler[str]):
    """The loop that reads nodes live."""

    settings = Settings(name="live read of node", workers=8, retry=(0.1, 30.0), batch_delay=BATCH_DELAY)
    cache: NodeQuestions

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, claims: ClaimCache
    ) -> None:
        self.cache = NodeQuestions()
        super().__init__(runtime, informers, self.cache)
        self._informers = informers
        self._claims = claims

    def request(self, question: LookUpNode) -> None:
        """Add a question; the answer enters the cache of claims."""
        self.cache.ask(question)
        self.enqueue_dirty()

    async def reconcile(self, key: str, now: Moment) -> Instant:
        """Read one node, by a list: this needs no further rights. Raises ApiError."""
        del now
        questions = self.cache.about(key)
        if not questions:
            return NEVER
        selection = Selection(fields=f"metadata.name={key}")
        pages = self._runtime.client.list_pages(NODES, Node, selection=selection, priority=RequestPriority.BULK)
        nodes = [node async for page in pages for node in page.items]
        self.cache.remove(questions)
        for question in questions:
            live_reads.observe_nodes(self._claims, question, nodes, now=self._runtime.instant())
        self._informers.notify()
        return NEVER
