"""Devices for the replacement of a pod: kube-scheduler's filter DynamicResources, with the allocator of this project.

A claim that the pod names exists once: where it is allocated, the replacement must go; where it is not, its devices are
allocated with the pod. Claims from a template, and those for extended resources, are made anew for the replacement,
while the pod still has its own. Their requests are those of the template; of the pod's own claim, if the template is
not known.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dra.engine.allocator import (
    AllocationFailure,
    AllocatorRelease,
    ClaimToAllocate,
    ConsumedCapacityCollection,
    FatalFailures,
    ResourceSliceTracker,
    UnsatisfiableError,
    allocate,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.allocator.search import Solution
from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.devices.ledger import Holder, Ledger, allocated_devices
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.claims import AllocationResult, ResourceClaim, ResourceClaimSpec
from dra.model.device_classes import DeviceClass
from dra.model.meta import Key, ObjectMeta, Uid
from dra.model.pods import PodResourceClaim
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate

NOT_ON_NODE: Final = "resourceclaim not available on the node"
NO_DEVICES: Final = "cannot allocate all claims"

SEARCHES_MAX: Final = 10_000
"""Maximum searches of a node in a round for the pods of a namespace, each of which may have another claim."""

SEARCH_STEPS_MAX: Final = 2_000
"""Maximum picks of one search; many nodes are searched in a round. A search that gives up finds no place."""


@dataclass(slots=True, eq=False)
class ClaimedDevices:
    """The devices that a pod's replacement needs by its claims; pods with equal claims share one object."""

    to_allocate: tuple[ClaimToAllocate, ...] = ()
    from_templates: bool = False
    """Whether claims are made from templates, which a Reservation may hold already."""
    usable_on: NodeSet = 0
    """The nodes on which claims that are allocated already can be used."""
    least: int = 0
    """The least number of devices that none but these claims may have."""
    problem: str = ""
    """Why no node fits."""


class Devices:
    """The devices of all nodes, and the claims that hold them."""

    def __init__(  # noqa: PLR0913 - keyword-only: the objects that describe devices
        self,
        labels: NodeLabels,
        *,
        node_labels: Mapping[str, dict[str, str] | None],
        claims: Iterable[ResourceClaim],
        templates: Iterable[ResourceClaimTemplate],
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        rules: Iterable[DeviceTaintRule],
        release: AllocatorRelease,
    ) -> None:
        """Count the devices that claims hold; ``release``: of kube-scheduler, whose allocator decides."""
        self._labels = labels
        self._node_labels = node_labels
        self._claims: dict[Key, ResourceClaim] = {stored.metadata.key: stored for stored in claims}
        self._templates = {template.metadata.key: template for template in templates}
        self._classes = {device_class.metadata.name: device_class for device_class in classes}
        self._inventory = ResourceSliceTracker(release)
        self._ledger = Ledger()
        self._shares = ConsumedCapacityCollection()
        self._allocations: dict[Uid, tuple[Holder, AllocationResult]] = {}
        """Claim → its allocation."""
        self._by_pod: dict[Uid, list[Uid]] = {}
        """Pod → claims that were made for the pod and are allocated."""
        self._with_devices: NodeSet | None = None
        self._claimed: dict[Demand, ClaimedDevices | None] = {}
        self._by_content: dict[bytes, ClaimedDevices] = {}
        self._reasons: dict[tuple[ClaimedDevices, str], str] = {}
        self._given_up: dict[tuple[ClaimedDevices, NodeSet], str] = {}
        self._fatal_failures = FatalFailures()
        self._searches: dict[str, int] = {}
        """Namespace → number of searches for its pods."""
        for rule in rules:
            self._inventory.observe_rule(rule)
        for resource_slice in slices:
            self._inventory.observe(resource_slice)
        for claim in self._claims.values():
            if (allocation := claim.status.allocation) is not None:
                self._record(Holder(kind="claim", key=claim.metadata.key, uid=claim.metadata.uid), allocation)
                if (pod := claim.generated_for) is not None:
                    self._by_pod.setdefault(pod, []).append(claim.metadata.uid)

    def claimed(self, demand: Demand) -> ClaimedDevices | None:
        """Return what the claims of a pod's replacement ask for; None for a pod without claims."""
        pod = demand.example
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return None
        if demand not in self._claimed:
            self._claimed[demand] = self._claims_of(pod)
        return self._claimed[demand]

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes that may have the devices; `reason` says of each whether it has them."""
        claimed = self.claimed(candidate.demand)
        if claimed is None:
            return self._labels.all
        if claimed.problem:
            return 0
        return claimed.usable_on & (self._nodes_with_devices() if claimed.to_allocate else self._labels.all)

    def given_up_reason(self, candidate: Candidate, nodes: NodeSet) -> str:
        """Return why kube-scheduler would give up a pod that these nodes accept otherwise; empty if it would not.

        The devices of one node are enough, whatever the others offer (`AllocationFailure.fatal`).
        """
        claimed = self.claimed(candidate.demand)
        if claimed is None or not claimed.to_allocate:
            return ""
        key = (claimed, nodes)
        if key not in self._given_up:
            self._given_up[key] = self._fatal_failure(claimed, nodes, namespace=candidate.demand.info.key[0])
        return self._given_up[key]

    def _fatal_failure(self, claimed: ClaimedDevices, nodes: NodeSet, *, namespace: str) -> str:
        for name, labels in self._node_labels.items():
            if not nodes & self._labels.single(name):
                continue
            if not self._fatal_failures.are_possible(claimed.to_allocate, self._inventory.node_devices(name, labels)):
                continue
            if self._is_limit_reached(namespace):
                return _too_many_claims(namespace)
            solution = self.allocate(claimed.to_allocate, name)
            if isinstance(solution, AllocationFailure) and solution.fatal:
                return solution.text
        return ""

    def _is_limit_reached(self, namespace: str) -> bool:
        """Count a search for a pod of a namespace, and report whether there were too many."""
        self._searches[namespace] = self._searches.get(namespace, 0) + 1
        return self._searches[namespace] > SEARCHES_MAX

    def reason(
        self,
        candidate: Candidate,
        name: str,
        *,
        is_own: bool = False,
        are_held: bool = False,
        gone: Collection[Uid] = (),
    ) -> str:
        """Return why the devices of a node do not suffice; empty if they do.

        ``is_own``: it is the node of the pod, whose own claims do not count; ``are_held``: a Reservation there holds
        the devices of claims from templates for the pod; ``gone``: pods whose claims do not count either.
        """
        claimed = self.claimed(candidate.demand)
        if claimed is None:
            return ""
        if claimed.problem or not claimed.usable_on & self._labels.single(name):
            return claimed.problem or NOT_ON_NODE
        if not claimed.to_allocate or (are_held and claimed.from_templates):
            return ""
        if is_own or gone:
            released = [uid for pod in ((candidate.uid, *gone) if is_own else gone) for uid in self.held_by(pod)]
            return _text(self.allocate(claimed.to_allocate, name, without=released))
        return self._search(claimed, name, namespace=candidate.demand.info.key[0])

    def _search(self, claimed: ClaimedDevices, name: str, *, namespace: str) -> str:
        """Return why a node has too few devices; the answer holds until devices are held or released."""
        known = self._reasons.get((claimed, name))
        if known is not None:
            return known
        if self.free_on(name) < claimed.least and not self._has_shared_devices(name):
            return NO_DEVICES
        if self._is_limit_reached(namespace):
            return _too_many_claims(namespace)
        known = self._reasons[claimed, name] = _text(self.allocate(claimed.to_allocate, name))
        return known

    def allocate(
        self, claims: Sequence[ClaimToAllocate], node: str, *, without: Collection[Uid] = ()
    ) -> Solution | AllocationFailure:
        """Return devices of a node for claims, as if the claims ``without`` held none; or why there are none."""
        released = self._release(without)
        try:
            return allocate(
                claims,
                node_devices=self._inventory.node_devices(node, self._node_labels.get(node)),
                ledger=self._ledger,
                consumed_capacity=self._shares,
                allow_binding_conditions=True,
                max_steps=SEARCH_STEPS_MAX,
            )
        finally:
            for holder, allocation in released:
                self._record(holder, allocation)

    def requested(self, candidate: Candidate) -> int | None:
        """Return the least number of devices that claims of a pod without an allocation need; None: all of a node."""
        claimed = self.claimed(candidate.demand)
        claims = claimed.to_allocate if claimed is not None else ()
        counts = [[request.count for request in alternatives] for claim in claims for alternatives in claim.requests]
        if any(None in alternatives for alternatives in counts):
            return None
        return sum(min(count or 0 for count in alternatives) for alternatives in counts)

    def devices_of(self, claims: Iterable[Uid]) -> int:
        """Return the number of devices that claims hold."""
        return sum(len(self._ledger.items(uid)) for uid in claims)

    def free_on(self, node: str) -> int:
        """Return the number of devices that a node can use and no claim holds."""
        pools = self._inventory.node_devices(node, self._node_labels.get(node)).pools
        return sum(self._ledger.is_free(candidate.item) for view in pools for candidate in view.candidates)

    def _has_shared_devices(self, node: str) -> bool:
        pools = self._inventory.node_devices(node, self._node_labels.get(node)).pools
        return any(candidate.device.allow_multiple_allocations for view in pools for candidate in view.candidates)

    def held_by(self, pod: Uid) -> tuple[Uid, ...]:
        """Return the claims that were made for a pod, hold devices and end with the pod."""
        return tuple(self._by_pod.get(pod, ()))

    def hold(self, candidate: Candidate, node: str) -> None:
        """Hold the devices of a pod's replacement on a node."""
        claimed = self.claimed(candidate.demand)
        if claimed is None or not claimed.to_allocate:
            return
        solution = self.allocate(claimed.to_allocate, node)
        if isinstance(solution, AllocationFailure):
            return
        uid = f"{candidate.uid} on {node}"
        results = allocation_results(claimed.to_allocate, solution, node=node, share_id=lambda: uid)
        for number, allocation in enumerate(results):
            key = (candidate.demand.info.key[0], uid)
            self._record(Holder(kind="claim", key=key, uid=Uid(f"{uid} {number}")), allocation)
        self._reasons.clear()

    def release(self, candidate: Candidate, node: str) -> None:
        """Hold no longer what `hold` has held."""
        claimed = self.claimed(candidate.demand)
        for number in range(len(claimed.to_allocate) if claimed is not None else 0):
            uid = Uid(f"{candidate.uid} on {node} {number}")
            self._release([uid])
            self._allocations.pop(uid, None)
        self._reasons.clear()

    def _record(self, holder: Holder, allocation: AllocationResult) -> None:
        """Record the devices of a claim; of those that another claim holds as well, the first one counts."""
        self._allocations[holder.uid] = (holder, allocation)
        self._shares.observe_allocation(holder.uid, allocation)
        items = allocated_devices(allocation)
        if self._ledger.hold(holder, items) is not None:
            self._ledger.hold(holder, [item for item in items if self._ledger.is_free(item)])

    def _release(self, claims: Iterable[Uid]) -> list[tuple[Holder, AllocationResult]]:
        """Release the devices of claims; return what is to be recorded again."""
        released = [self._allocations[uid] for uid in claims if uid in self._allocations]
        for holder, _ in released:
            self._ledger.release(holder.uid)
            self._shares.observe_allocation(holder.uid, None)
        return released

    def _nodes_with_devices(self) -> NodeSet:
        if self._with_devices is None:
            self._with_devices = 0
            for name, labels in self._node_labels.items():
                if self._inventory.node_devices(name, labels).pools:
                    self._with_devices |= self._labels.single(name)
        return self._with_devices

    def _claims_of(self, pod: DeschedulingPod) -> ClaimedDevices:
        """Return what the claims of the replacement of a pod ask for."""
        allocated: list[ResourceClaim] = []
        unallocated: list[ResourceClaim] = []
        from_templates = False
        for entry in pod.spec.resource_claims or ():
            if entry.resource_claim_name is not None:
                claim = self._claims.get((pod.metadata.namespace, entry.resource_claim_name))
                if claim is None or claim.metadata.deleting:
                    problem = "is being deleted" if claim is not None else "not found"
                    return ClaimedDevices(problem=f'resourceclaim "{entry.resource_claim_name}" {problem}')
                (unallocated if claim.status.allocation is None else allocated).append(claim)
                continue
            spec = self._spec_of_new_claim(pod, entry)
            if spec is None:
                return ClaimedDevices(problem=f'resourceclaim of entry "{entry.name}" is not known')
            unallocated.append(_new_claim(pod, entry.name, spec))
            from_templates = True
        extended = pod.status.extended_resource_claim_status
        if extended is not None:
            claim = self._claims.get((pod.metadata.namespace, extended.resource_claim_name))
            if claim is None:
                return ClaimedDevices(problem=f'resourceclaim "{extended.resource_claim_name}" not found')
            unallocated.append(_new_claim(pod, extended.resource_claim_name, claim.spec))
        return self._shared(allocated, unallocated, from_templates=from_templates)

    def _shared(
        self, allocated: list[ResourceClaim], unallocated: list[ResourceClaim], *, from_templates: bool
    ) -> ClaimedDevices:
        """Return the one object for claims that ask for the same."""
        names = [allocated_claim.metadata.key for allocated_claim in allocated]
        key = msgspec.json.encode((names, [new_claim.spec.devices for new_claim in unallocated], from_templates))
        known = self._by_content.get(key)
        if known is None:
            usable_on = self._labels.all
            for claim in allocated:
                if claim.status.allocation is not None:
                    usable_on &= self._labels.matching(claim.status.allocation.node_selector)
            try:
                to_allocate = tuple(claim_to_allocate(new_claim, self._classes) for new_claim in unallocated)
            except UnsatisfiableError as error:
                known = ClaimedDevices(problem=str(error))
            else:
                known = ClaimedDevices(
                    to_allocate=to_allocate,
                    from_templates=from_templates,
                    usable_on=usable_on,
                    least=sum(map(_least_devices, to_allocate)),
                )
            self._by_content[key] = known
        return known

    def _spec_of_new_claim(self, pod: DeschedulingPod, entry: PodResourceClaim) -> ResourceClaimSpec | None:
        """Return the spec of the claim that is to be generated for an entry; None if it is not known."""
        template = self._templates.get((pod.metadata.namespace, entry.resource_claim_template_name or ""))
        if template is not None and template.spec.spec:
            return _converted(template.spec.spec)
        statuses = pod.status.resource_claim_statuses or ()
        name = next((status.resource_claim_name for status in statuses if status.name == entry.name), None)
        claim = self._claims.get((pod.metadata.namespace, name or ""))
        return claim.spec if claim is not None and claim.spec.devices is not None else None


def _least_devices(claim: ClaimToAllocate) -> int:
    """Return the least number of free devices that a claim needs, whatever its alternatives."""
    return sum(
        min(0 if request.admin_access else request.count or 1 for request in alternatives)
        for alternatives in claim.requests
    )


def _converted(spec: dict[str, Any]) -> ResourceClaimSpec | None:
    try:
        return msgspec.convert(spec, ResourceClaimSpec)
    except msgspec.ValidationError:
        return None


def _new_claim(pod: DeschedulingPod, name: str, spec: ResourceClaimSpec) -> ResourceClaim:
    meta = ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=Uid(f"{pod.metadata.uid} {name}"))
    return ResourceClaim(metadata=meta, spec=spec)


def _too_many_claims(namespace: str) -> str:
    return f"namespace {namespace}: its pods have too many different claims"


def _text(result: Solution | AllocationFailure) -> str:
    return result.text if isinstance(result, AllocationFailure) else ""
