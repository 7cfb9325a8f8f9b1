"""Keeps the annotations of nodes up to date that keep autoscalers from deleting nodes (``annotateNodes``).

`dra.engine.claims.kept_nodes` decides what is written. The state is in the Nodes themselves: a controller that starts
finds the annotations of its predecessor by their marker. With ``annotateNodes: false`` no claim keeps a node, so all
that is left to do is to remove such annotations; where there are none, no Node is written and no permission is needed.
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from dra.engine.claims.kept_nodes import KeptNodes
from dra.engine.instants import NEVER, Instant
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import NODES
from dra.kube.workqueue import BATCH_DELAY, ItemBackoff, RetryPolicy, WorkQueue
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.nodes import Node

WORKERS: Final = 4
"""Number of Nodes written at the same time: a node changes when a claim is made or ends, not with each pod."""

RETRY: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before a failed write of a Node is retried."""

PROMPT_WRITES: Final = 2
"""Number of writes of one Node that are made without a pause: the annotations are set, and removed."""

PAUSE: Final = (1.0, 60.0)
"""Seconds, minimum and maximum, between further writes of one Node: another party may undo each of them."""

CALM: Final = 300.0
"""Seconds after the last write of a Node from which on its writes are prompt again."""

_ANY_NODE: Final = ""
"""Key of the backoff after a refusal, which concerns all Nodes."""

_log: Final = logging.getLogger(__name__)


class _NodeWrites(NamedTuple):
    """The writes of one Node in a row."""

    number: int = 0
    last: Instant = -NEVER

    def paused_until(self) -> Instant:
        """Return when the Node may be written again."""
        further = self.number - PROMPT_WRITES
        return -NEVER if further < 0 else self.last + min(PAUSE[0] * 2.0 ** min(further, 16), PAUSE[1])


class NodeAnnotator:
    """The loop that writes the annotations of nodes. ``nodes`` are the Nodes as last watched, by their keys."""

    def __init__(
        self,
        client: Client,
        *,
        kept: KeptNodes,
        nodes: Mapping[Key, Node],
        metrics: ControllerMetrics,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._kept = kept
        self._nodes = nodes
        self._clock = clock
        self._leadership = leadership
        self._queue: WorkQueue[str] = WorkQueue(clock, batch_delay=BATCH_DELAY)
        self._retry: RetryPolicy[str] = RetryPolicy(
            _log, subject="annotations of node {}".format, bounds=RETRY, on_internal_error=metrics.failures.inc
        )
        self._refusals: ItemBackoff[str] = ItemBackoff()
        self._is_refused = False
        """Whether the last write was refused: the missing permission is logged once, and tried with one node."""

        self._refused_until: Instant = -NEVER
        self._writes: dict[str, _NodeWrites] = {}
        """The latest writes of each Node."""

    def enqueue_dirty(self) -> None:
        """Enqueue the nodes whose annotations are to be changed."""
        dirty = self._kept.dirty
        while dirty:
            self._queue.add(dirty.pop())

    def enqueue_all(self) -> None:
        """Check all nodes, as a leader does that begins to act."""
        for node in self._nodes.values():
            self._kept.observe_node(node)
        self.enqueue_dirty()

    async def run(self) -> None:
        """Write annotations until cancelled."""
        await self._queue.run(self.reconcile, workers=WORKERS, retry=self._retry)

    async def reconcile(self, name: str) -> Instant | None:
        """Write the annotations of one node, unless they are right; return when to try again, and raise ApiError."""
        node = self._nodes.get(("", name))
        if node is None:
            self._writes.pop(name, None)
            return None
        changes = self._kept.changes(node)
        if not changes or (self._is_refused and not self._kept.is_enabled):
            return None
        now = self._clock.now()
        writes = self._writes.get(name, _NodeWrites())
        if now >= writes.last + CALM:
            writes = _NodeWrites()
        until = max(writes.paused_until(), self._refused_until)
        if now < until:
            return until
        if self._is_refused:
            self._refused_until = now + RETRY[1]  # the other nodes wait for the outcome of this write
        if not await self._write(node, changes):
            return self._refused_until if self._kept.is_enabled else None
        self._writes[name] = _NodeWrites(writes.number + 1, self._clock.now())
        _log.info("node %s: %s autoscalers", name, "kept from" if self._kept.is_kept(name) else "no longer kept from")
        return None

    async def _write(self, node: Node, changes: Mapping[str, str | None]) -> bool:
        """Write changes of a node's annotations; return False if the permission is missing, and raise ApiError."""
        try:
            await self._client.merge_patch(
                NODES,
                node.metadata.key,
                {"metadata": {"annotations": changes}},
                model=PartialObjectMetadata,
                resource_version=node.metadata.resource_version,
                timeout_seconds=self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now()),
            )
        except NotFound:
            return True
        except Forbidden as error:
            self._log_refusal(node.metadata.name, error)
            self._refused_until = self._clock.now() + self._refusals.next_delay(_ANY_NODE, RETRY)
            return False
        self._is_refused, self._refused_until = False, -NEVER
        self._refusals.forget(_ANY_NODE)
        return True

    def _log_refusal(self, name: str, error: Forbidden) -> None:
        if self._is_refused:
            return
        self._is_refused = True
        if self._kept.is_enabled:
            case, remedy = "not kept from autoscalers, and neither are others", "grant the permission of"
        else:
            case, remedy = "stays kept from autoscalers by earlier annotations", "to remove them, restart with"
        _log.warning("node %s: %s; %s component annotate-nodes: %s", name, case, remedy, error)
