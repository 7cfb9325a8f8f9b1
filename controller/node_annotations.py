"""Keeps the annotations of nodes up to date that keep autoscalers from deleting nodes (``annotateNodes``).

`dra.engine.claims.kept_nodes` says what is written, `dra.engine.claims.node_annotations` when. The state is in the
Nodes themselves: a controller that starts finds the annotations of its predecessor by their marker. With
``annotateNodes: false`` no claim keeps a node, so all that is left to do is to remove such annotations; where there are
none, no Node is written and no permission is needed.
"""

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims.kept_nodes import KeptNodes
from dra.engine.claims.node_annotations import AnnotateNode, decide
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import NODES
from dra.model.meta import PartialObjectMetadata


class NodeAnnotations(Reconciler[str]):
    """The loop that writes the annotations of nodes."""

    # Four workers: a node changes when a claim is made or ends, not with each pod.
    settings = Settings(name="annotations of node", workers=4, retry=(0.2, 60.0))
    cache: KeptNodes

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, cache: KeptNodes
    ) -> None:
        super().__init__(runtime, informers, cache)
        self._nodes = informers.nodes

    async def begin(self) -> None:
        """Check all nodes: another leader may have annotated any of them."""
        for node in self._nodes.objects.values():
            self.cache.observe_node(node)

    async def reconcile(self, key: str, now: Moment) -> Instant:
        """Write the annotations of one node, unless they are right; return when to try again, and raise ApiError."""
        node = self._nodes.objects.get(("", key))
        if node is None:
            self.cache.writes.forget(key)
            return NEVER
        plan = decide(self.cache.view(node, now=now.instant), now=now.instant)
        for action in plan.actions:
            await self._annotate(action)
        return plan.wake_at

    async def _annotate(self, action: AnnotateNode) -> None:
        _, name = action.node
        self.cache.writes.attempt(now=self._runtime.instant())
        try:
            await self._runtime.client.merge_patch(
                NODES,
                action.node,
                {"metadata": {"annotations": action.changes}},
                model=PartialObjectMetadata,
                resource_version=action.version,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        except Forbidden as error:
            if self.cache.refuse(name, now=self._runtime.instant()):
                self._log_refusal(name, error)
            return
        self.cache.writes.succeed(name, now=self._runtime.instant())
        is_kept = self.cache.is_kept(name)
        self._log.info("node %s: %s autoscalers", name, "kept from" if is_kept else "no longer kept from")

    def _log_refusal(self, name: str, error: Forbidden) -> None:
        if self.cache.is_enabled:
            case, remedy = "not kept from autoscalers, and neither are others", "grant the permission of"
        else:
            case, remedy = "stays kept from autoscalers by earlier annotations", "to remove them, restart with"
        self._log.warning("node %s: %s; %s component annotate-nodes: %s", name, case, remedy, error)
