"""Plays a scheduler on a snapshot: the decisions are those of the local plane's, one pod after the other.

`dra.local.scheduler.cycle.decide` decides; here its decisions are taken as carried out at once. Pods that wait in the
cluster are in the queue as well, before the new ones of their priority: a scheduler would not pass them over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from dra.cli.kubectl.simulate.wishes import OURS, Wishes
from dra.engine.explain.snapshot import Presence, Snapshot
from dra.engine.fit import Demand
from dra.local.scheduler.cluster import Cluster
from dra.local.scheduler.cycle import Deallocation, Later, Placement, Unschedulable, decide
from dra.local.scheduler.queue import Entry
from dra.model.claims import POD_CLAIM_NAME, RESERVED_FOR_MAX_SIZE, AllocationResult, ResourceClaim
from dra.model.meta import Key, ObjectMeta, OwnerReference, Uid
from dra.model.placement import PlacedPod
from dra.model.pods import PodResourceClaim, PodResourceClaimStatus
from dra.model.references import ConsumerReference
from dra.model.templates import ResourceClaimTemplate
from dra.model.workloads import RESERVED_FOR

SEED: Final = 0
"""Where several nodes are as good as each other, chance decides; the same question gets the same answer."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one pod."""

    pod: PlacedPod
    node: str = ""
    claims: tuple[ResourceClaim, ...] = ()
    """As they are then."""

    why: str = ""
    """Why it waits, in the scheduler's words."""

    new: bool = True
    """Whether it is of the manifests; else it waited in the cluster before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of them, and the cluster as it would be then."""

    fates: tuple[Fate, ...]
    after: Snapshot


def play(snapshot: Snapshot, wishes: Wishes) -> Outcome:
    """Return what a scheduler would do."""
    return _Play(snapshot, wishes).run()


class _Play:
    def __init__(self, snapshot: Snapshot, wishes: Wishes) -> None:
        self._snapshot = _with(snapshot, wishes)
        self._cluster = Cluster()
        self._chance = Random(SEED)  # noqa: S311 - ties between nodes
        self._start = 0
        self._without_limit = snapshot.leader.presence is Presence.RUNNING
        self._new = {pod.metadata.uid for pod in wishes.pods}
        self._fates: dict[Uid, Fate] = {}
        self._pods: dict[Uid, PlacedPod] = {pod.metadata.uid: pod for pod in self._snapshot.pods}
        templates = {each.metadata.key: each for each in wishes.templates}
        for host in self._snapshot.nodes:
            self._cluster.observe_host(host)
        for each in self._snapshot.slices:
            self._cluster.inventory.observe(each)
        for found in self._snapshot.classes:
            self._cluster.observe_class(found)
        for claim in self._snapshot.claims:
            self._cluster.claims.observe(claim)
        for uid, pod in tuple(self._pods.items()):
            if uid in self._new:
                self._pods[uid] = self._with_claims(pod, templates)
            elif pod.spec.node_name and not pod.terminal:
                self._cluster.place(pod, pod.spec.node_name)

    def run(self) -> Outcome:
        waiting = self._queue()
        while waiting:
            left = [entry for entry in waiting if not self._decided(entry)]
            if len(left) == len(waiting):
                break
            waiting = left
        fates = [self._fates[uid] for uid in self._pods if uid in self._fates]
        return Outcome(tuple(fates), self._after())

    def _queue(self) -> list[Entry]:
        """Return whom a scheduler would look at, in its order."""
        found = [
            pod for pod in self._pods.values() if not (pod.spec.node_name or pod.terminal or pod.metadata.deleting)
        ]
        found.sort(key=self._turn)
        return [Entry(Demand.of(pod)) for pod in found]

    def _turn(self, pod: PlacedPod) -> tuple[int, bool, str]:
        return (-pod.spec.priority, pod.metadata.uid in self._new, pod.metadata.creation_timestamp)

    def _decided(self, entry: Entry) -> bool:
        """Decide about one pod; return whether that is over."""
        pod = entry.pod
        verdict = decide(entry, self._cluster, start=self._start, chance=self._chance)
        while isinstance(verdict, Deallocation):
            self._observe(verdict.claim, None, ())
            verdict = decide(entry, self._cluster, start=self._start, chance=self._chance)
        new = pod.metadata.uid in self._new
        match verdict:
            case Placement():
                full = self._full(verdict, pod)
                if full is not None:
                    self._fates[pod.metadata.uid] = Fate(pod, why=full, new=new)
                    return False
                self._start += 1
                self._fates[pod.metadata.uid] = Fate(pod, verdict.node, self._carried_out(verdict, pod), new=new)
                return True
            case Unschedulable(message=why) | Later(why=why):
                self._fates[pod.metadata.uid] = Fate(pod, why=why, new=new)
                return False

    def _carried_out(self, placement: Placement, pod: PlacedPod) -> tuple[ResourceClaim, ...]:
        entry = ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        spec = msgspec.structs.replace(pod.spec, node_name=placement.node)
        self._pods[pod.metadata.uid] = bound = msgspec.structs.replace(pod, spec=spec)
        self._cluster.place(bound, placement.node)
        return tuple(self._observe(*each, (entry,)) for each in placement.claims)

    def _observe(
        self, claim: ResourceClaim, allocation: AllocationResult | None, more: tuple[ConsumerReference, ...]
    ) -> ResourceClaim:
        """Take a claim as written: allocated if it was not, and listing one pod more; or, without, given back."""
        status = claim.status
        listed = [*claim.entries, *(each for each in more if each not in claim.entries)] if more else []
        given = (allocation or status.allocation) if more else None
        status = msgspec.structs.replace(status, allocation=given, reserved_for=listed)
        written = msgspec.structs.replace(claim, status=status)
        self._cluster.claims.observe(written)
        return written

    def _full(self, placement: Placement, pod: PlacedPod) -> str | None:
        """Return why the list of a claim takes no more pods, where nothing of ours makes room in it."""
        if self._without_limit:
            return None
        for claim, _ in placement.claims:
            entries = claim.entries
            listed = any(entry.uid == pod.metadata.uid for entry in entries)
            if len(entries) >= RESERVED_FOR_MAX_SIZE and not listed:
                return f"claim {claim.metadata.name} has {len(entries)} consumers, and a list has no room for more"
        return None

    def _with_claims(self, pod: PlacedPod, templates: dict[Key, ResourceClaimTemplate]) -> PlacedPod:
        """Return the pod with the claims that would be made for it."""
        made = []
        for entry in pod.spec.resource_claims or ():
            template = templates.get((pod.metadata.namespace, entry.resource_claim_template_name or ""))
            if template is not None:
                claim = _generated(template, pod, entry)
                self._cluster.claims.observe(claim)
                made.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.metadata.name))
        if not made:
            return pod
        return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, resource_claim_statuses=made))

    def _after(self) -> Snapshot:
        return msgspec.structs.replace(
            self._snapshot, claims=tuple(self._cluster.claims), pods=tuple(self._pods.values())
        )


def _generated(template: ResourceClaimTemplate, pod: PlacedPod, entry: PodResourceClaim) -> ResourceClaim:
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    metadata = ObjectMeta(
        name=f"{meta.name}-{entry.name}-simulated",
        namespace=meta.namespace,
        uid=Uid(f"simulated-claim-{meta.namespace}-{meta.name}-{entry.name}"),
        resource_version="1",
        annotations={**(template.spec.metadata.annotations or {}), POD_CLAIM_NAME: entry.name},
        owner_references=[owner],
    )
    spec = msgspec.convert(template.spec.spec, type(ResourceClaim(metadata=metadata).spec))
    return ResourceClaim(metadata=metadata, spec=spec)


def _with(snapshot: Snapshot, wishes: Wishes) -> Snapshot:
    """Return the cluster with what the manifests bring; what is there already stays as it is."""

    def joined(there: Sequence[object], more: Iterable[object]) -> tuple[object, ...]:
        known = {each.metadata.key for each in there}  # type: ignore[attr-defined]
        return (*there, *(each for each in more if each.metadata.key not in known))  # type: ignore[attr-defined]

    pods = [_opened(pod) if snapshot.leader.presence is Presence.RUNNING else pod for pod in snapshot.pods]
    return msgspec.structs.replace(
        snapshot,
        claims=joined(snapshot.claims, wishes.claims),
        pods=joined(pods, wishes.pods),
        nodes=joined(snapshot.nodes, wishes.nodes),
        slices=joined(snapshot.slices, wishes.slices),
        classes=joined(snapshot.classes, wishes.classes),
    )


def _opened(pod: PlacedPod) -> PlacedPod:
    """Return the pod without our gate: the controller at work opens it."""
    if OURS not in pod.gates:
        return pod
    gates = [each for each in pod.spec.scheduling_gates or () if each.name != OURS]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=gates or None))


def reserved(claim: ResourceClaim) -> str:
    """Return for which workload a claim says it is."""
    return claim.metadata.annotation(RESERVED_FOR) or ""
