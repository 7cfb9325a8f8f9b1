"""The results of lookups that the engine asks for (`LookUpPod`, `LookUpNode`, `LookUpPlacements` of `actions`).

A watch reports what exists. That an object does not exist, or that a pod is not of a claim, only a live read shows.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

from dra.engine.claims import vanished_pods
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumer_index import ConsumerIndex
from dra.engine.claims.node_index import NodeIndex
from dra.engine.claims.view import Placements, VanishedPod
from dra.engine.dirty_keys import DirtyKeys
from dra.engine.instants import Instant
from dra.model.meta import Key, Uid


@dataclass(frozen=True, slots=True)
class LookupResults:
    """Records in the claims of the cache what lookups have shown; adds these claims to ``dirty``."""

    records: MutableMapping[Key, ClaimState]
    pods: ConsumerIndex
    nodes: NodeIndex
    dirty: DirtyKeys[Key]

    def observe_pod_absent(self, claim: Key, uid: Uid) -> None:
        """Record that a live read found no such pod that could ever run: its entry in the claim's list is stale."""
        record = self.records.get(claim)
        if record is not None and uid not in self.pods:
            record.absent.add(uid)
            record.present.pop(uid, None)
            self.dirty.add(claim)

    def observe_pod_vanished(self, claim: Key, uid: Uid) -> None:
        """Record that a live read found no such pod: its containers may still run, unless its end was observed.

        The claims watch may be behind the pods watch, and show the entry of a pod that has ended and is deleted.
        """
        record = self.records.get(claim)
        if record is None or uid in self.pods or uid in record.absent:
            return
        self.observe_pod_absent(claim, uid)
        grace = self.pods.deleted.grace(uid)
        if grace is not None and record.claim is not None and record.claim.status.allocation is not None:
            vanished_pods.add_vanished(record, self.nodes, VanishedPod(uid, grace=grace))

    def observe_node_read(self, claim: Key, name: str, *, now: Instant) -> None:
        """Record a live read of a node: if it is Ready, pods that vanished from it long enough ago have ended."""
        record = self.records.get(claim)
        if record is None:
            return
        vanished_pods.observe_node_read(record, self.nodes, name, now=now)
        self.dirty.add(claim)

    def observe_pod_present(self, claim: Key, uid: Uid, *, now: Instant) -> None:
        """Record that a live read found the pod.

        Either the pod does not reference the claim, or it is gated, or the watch is behind.
        """
        record = self.records.get(claim)
        if record is not None:
            member = record.consumers.get(uid)
            if member is None or member.is_unlistable:
                record.present[uid] = now
                self.dirty.add(claim)

    def observe_placements(self, claim: Key, placements: Placements) -> None:
        """Record where pods that wait for a claim could run."""
        record = self.records.get(claim)
        if record is not None and record.observe_placements(placements):
            self.dirty.add(claim)
