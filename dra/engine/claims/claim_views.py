"""The snapshots of claims for decisions: of each claim, what the cache knows at one moment.

A view names nothing that a decision would have to look up: pods by stage, nodes, workload, holders and times are in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dra.engine.claims import vanished_pods
from dra.engine.claims.bind_latency import BindLatency
from dra.engine.claims.claim_holders import ClaimHolders
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumer_index import ConsumerIndex
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.node_dependents import NodeDependents
from dra.engine.claims.node_index import NodeIndex
from dra.engine.claims.other_claims import waits_for_other_claim
from dra.engine.claims.view import ClaimView, ReservedForEntry, WorkloadState, classify_entry
from dra.engine.claims.workload_index import WorkloadIndex, WorkloadKey
from dra.engine.devices.taints import TaintIndex
from dra.engine.instants import Instant
from dra.model.meta import Key, Uid


@dataclass(frozen=True, slots=True)
class ClaimViews:
    """Makes views of claims from the indexes of the claim cache."""

    records: Mapping[Key, ClaimState]
    pods: ConsumerIndex
    nodes: NodeIndex
    node_dependents: NodeDependents
    workloads: WorkloadIndex
    holders: ClaimHolders
    taints: TaintIndex
    bind_latency: BindLatency

    def view(self, key: Key, *, now: Instant) -> ClaimView | None:
        """Return the view for a decision about the claim; None if there is no such claim."""
        record = self.records.get(key)
        if record is None or record.claim is None:
            return None
        record.refresh_usable_nodes(self.nodes)
        record.observe_deleted_nodes(now=now)
        vanished = vanished_pods.still_running(record, self.nodes, now=now)
        reservation = record.reservation
        workload = (
            self.workloads.get(WorkloadKey.from_reference(reservation.reference, key[0]))
            if reservation is not None
            else WorkloadState()
        )
        former = record.former
        starting, started, gated = (record.users(stage) for stage in (Stage.STARTING, Stage.STARTED, Stage.GATED))
        record.observe_use(used=bool(starting or started), now=now)
        return ClaimView(
            claim=record.claim,
            reservation=reservation,
            malformed=record.malformed,
            workload=workload,
            former=self.workloads.get(WorkloadKey.from_reference(former, key[0]))
            if former is not None
            else WorkloadState(),
            entries=tuple(self._entries(record)),
            gated=gated,
            waiting=record.users(Stage.WAITING),
            starting=starting,
            started=started,
            finished=record.users(Stage.FINISHED),
            entry_histories=record.entry_histories.copy(),
            excluded=record.pods_off_allocation(self.nodes),
            awaiting_other_claims=frozenset(
                c.uid for c in gated if waits_for_other_claim(c, key, records=self.records, now=now)
            ),
            conflicts=record.conflicts,
            taints=self.taints.taints_of(record.claim.status.allocation),
            usable_nodes=record.usable_nodes,
            deletion_signs=self.node_dependents.deletion_signs(key),
            placements=record.current_placements,
            lost_nodes=tuple(vanished_pods.lost_nodes(record, self.nodes)),
            vanished=vanished,
            silent_nodes=vanished_pods.silent_nodes(record, self.nodes),
            other_users=self._other_users(record) if record.forced else (),
            pods_on_silent_nodes=self._pods_on_silent_nodes(record) if record.forced else frozenset(),
            history=record.history,
            owning_pod=self.pods.owning_pod_phase(record.claim),
            holds=self.holders.holders_of(record.claim),
            observed_bind_horizon=self.bind_latency.bind_horizon(now=now),
        )

    def _entries(self, record: ClaimState) -> Iterator[ReservedForEntry]:
        assert record.claim is not None  # noqa: S101 - the caller has looked
        strangers = record.strangers
        for entry in record.claim.entries:
            consumer = record.consumers.get(entry.uid) if entry.uid not in strangers else None
            other = self.pods.get(entry.uid)
            over = other is not None and other.stage is Stage.FINISHED
            live_read_at = record.present.get(entry.uid) if other is None or consumer is other else None
            yield classify_entry(
                entry,
                reservation=record.reservation,
                consumer=consumer,
                gone=over or entry.uid in record.absent,
                vanished=entry.uid in record.vanished and not over,
                stranger=not over and (other is not None or live_read_at is not None),
                live_read_at=live_read_at,
                group=self.workloads.get(WorkloadKey.from_reference(entry, record.key[0]))
                if entry.is_pod_group
                else None,
                holders=self.holders.is_enabled,
            )

    def _other_users(self, record: ClaimState) -> tuple[Consumer, ...]:
        assert record.claim is not None  # noqa: S101 - the caller has looked
        others = (self.pods.get(e.uid) for e in record.claim.entries if e.uid not in record.consumers)
        return tuple(c for c in others if c is not None)

    def _pods_on_silent_nodes(self, record: ClaimState) -> frozenset[Uid]:
        users = (*record.stages[Stage.STARTING].values(), *record.stages[Stage.STARTED].values())
        users_of_nodes = (*users, *(c for c in self._other_users(record) if c.is_consuming))
        return frozenset(c.uid for c in users_of_nodes if not self.nodes.ready(c.node))
