"""Applies hypothetical changes to a snapshot: more nodes, cordoned nodes, reservations dropped."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dra.engine.claims import claim_holders
from dra.engine.cpus.unused_device import unused_device
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.reservations import placeholders
from dra.model.claims import ResourceClaim, ResourceClaimStatus
from dra.model.meta import Key, Uid
from dra.model.node_pods import AgentNode
from dra.model.pods import claim_names
from dra.model.references import MalformedReferenceError
from dra.model.slices import ResourceSlice, newest_of_pools
from dra.model.workload_reservations import workload_reservation

LABEL_HOSTNAME = "kubernetes.io/hostname"
RESERVATION_ALIASES = ("reservation", "reservations", "rsv")


class UnknownObjectError(ValueError):
    """A change names an object that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChanges:
    """The hypothetical changes to a cluster."""

    cordoned: tuple[str, ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    """(Name of a node to copy, number of copies)."""

    dropped: tuple[str, ...] = ()
    """Names of claims or Reservations to drop.

    ``[NAMESPACE/]CLAIM``, or the workload that claims are reserved for, ``jobs.batch/train``: the claims are
    deallocated, and their pods are gone. ``reservation/NAME``: the Reservation is deleted, and its pods run on.
    """

    namespace: str = ""
    """Namespace of claims that are named without one."""


def apply_changes(snapshot: Snapshot, change: ClusterChanges) -> Snapshot:
    """Return the snapshot with the changes applied; raise UnknownObjectError."""
    for name in change.cordoned:
        snapshot = _cordon_node(snapshot, name)
    for name, count in change.added:
        snapshot = _add_nodes(snapshot, name, count)
    for name in change.dropped:
        prefix, _, reservation = name.partition("/")
        if prefix in RESERVATION_ALIASES:
            snapshot = _drop_reservation(snapshot, reservation)
            continue
        for key in _find_dropped_claims(snapshot, name, change.namespace):
            snapshot = _drop_claim(snapshot, key)
    return snapshot


def _cordon_node(snapshot: Snapshot, name: str) -> Snapshot:
    _find_node(snapshot.nodes, name)
    nodes = tuple(
        msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))
        if node.metadata.name == name
        else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(snapshot, nodes=nodes)


def _find_node(nodes: Iterable[AgentNode], name: str) -> AgentNode:
    node = next((candidate for candidate in nodes if candidate.metadata.name == name), None)
    if node is None:
        raise UnknownObjectError(f"node {name}: not found")
    return node


def _add_nodes(snapshot: Snapshot, name: str, count: int) -> Snapshot:
    """Return the snapshot with copies of a node, empty and not cordoned, that offer the same devices, unused."""
    like = _find_node(snapshot.nodes, name)
    own = newest_of_pools(part for part in snapshot.slices if part.spec.node_name == name)
    counts = Counter(resource_slice.pool for resource_slice in own)
    nodes, slices = list(snapshot.nodes), list(snapshot.slices)
    for number in range(1, count + 1):
        new = f"{name}-more-{number}"
        labels = {**(like.metadata.labels or {}), LABEL_HOSTNAME: new}
        meta = msgspec.structs.replace(like.metadata, name=new, uid=Uid(f"simulated-node-{new}"), labels=labels)
        spec = msgspec.structs.replace(like.spec, unschedulable=False)
        nodes.append(msgspec.structs.replace(like, metadata=meta, spec=spec))
        slices += [_copy_slice(resource_slice, name, new, count=counts[resource_slice.pool]) for resource_slice in own]
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes), slices=tuple(slices))


def _copy_slice(resource_slice: ResourceSlice, old: str, new: str, *, count: int) -> ResourceSlice:
    """Return the slice of a new node; its pool has the slices of the node alone, even where several nodes share one."""
    spec = resource_slice.spec
    name = new if spec.pool.name == old else f"{spec.pool.name}-{new}"
    pool = msgspec.structs.replace(spec.pool, name=name, resource_slice_count=count)
    meta = msgspec.structs.replace(
        resource_slice.metadata, name=f"{resource_slice.metadata.name}-{new}", uid=Uid(f"simulated-slice-{new}")
    )
    devices = [unused_device(spec.driver, device) for device in spec.devices or ()]
    spec = msgspec.structs.replace(spec, node_name=new, pool=pool, devices=devices)
    return msgspec.structs.replace(resource_slice, metadata=meta, spec=spec)


def _find_dropped_claims(snapshot: Snapshot, name: str, namespace: str) -> list[Key]:
    """Return the claims that a name on the command line drops."""
    space, _, claim = name.removeprefix("claim/").rpartition("/")
    key = (space or namespace, claim)
    if any(claim.metadata.key == key for claim in snapshot.claims):
        return [key]
    reserved = [
        claim.metadata.key
        for claim in snapshot.claims
        if claim.metadata.namespace == namespace and _reserved_workload(claim) == name
    ]
    if not reserved:
        raise UnknownObjectError(
            f"claim {'/'.join(key)}: not found, and no claim in {namespace} is reserved for {name}"
        )
    return reserved


def _drop_reservation(snapshot: Snapshot, name: str) -> Snapshot:
    """Return the snapshot without a Reservation; garbage collection deletes the claims that only it owns."""
    dropped = next(
        (reservation for reservation in snapshot.reservations or () if reservation.metadata.name == name), None
    )
    if dropped is None:
        raise UnknownObjectError(f"reservation {name}: not found. See: kubectl dra reservations")
    uid = dropped.metadata.uid
    claims = (_without_holder(claim, uid) for claim in snapshot.claims)
    pods = tuple(pod for pod in snapshot.pods if placeholders.reservation_uid_of(pod.metadata) != uid)
    return msgspec.structs.replace(
        snapshot,
        reservations=tuple(reservation for reservation in snapshot.reservations or () if reservation is not dropped),
        claims=tuple(claim for claim in claims if claim is not None),
        pods=pods,
    )


def _without_holder(claim: ResourceClaim, uid: Uid) -> ResourceClaim | None:
    """Return a claim as it is without a Reservation; None if the claim is deleted with it."""
    made_for = any(owner.uid == uid for owner in claim_holders.owner_reservations(claim))
    if not made_for and all(entry.uid != uid for entry in claim.entries):
        return claim
    owners = [owner for owner in claim.metadata.owner_references or () if owner.uid != uid]
    left = [entry for entry in claim.entries if entry.uid != uid]
    if made_for and not owners and not left:
        return None
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(claim.metadata, owner_references=owners or None),
        status=msgspec.structs.replace(
            claim.status, reserved_for=left, allocation=claim.status.allocation if left else None
        ),
    )


def _reserved_workload(claim: ResourceClaim) -> str:
    try:
        reservation = workload_reservation(claim)
    except MalformedReferenceError:
        return ""
    return str(reservation.reference) if reservation is not None else ""


def _drop_claim(snapshot: Snapshot, key: Key) -> Snapshot:
    claims = tuple(
        msgspec.structs.replace(claim, status=ResourceClaimStatus()) if claim.metadata.key == key else claim
        for claim in snapshot.claims
    )
    pods = tuple(
        pod
        for pod in snapshot.pods
        if not (pod.metadata.namespace == key[0] and key[1] in claim_names(pod) and pod.spec.node_name)
    )
    return msgspec.structs.replace(snapshot, claims=claims, pods=pods)
