"""The status of a reservation: its node, what it holds, and its owner pods.

``allocated`` is what owner pods take of the resources that the reservation holds, even if that is more than it holds.
``currentOwners`` are sorted by uid. With ``allocateOnce`` the first owner pod ends the reservation: in the write that
names the pod, or when a named pod is gone. A pod is *binding* while its binding may still fail: the status names
it, so that no other pod gets its place, but it has not ended the reservation yet. Pods that were on the node before the
reservation (pre-allocation) do not end it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from dra.api.object_fields import ObjectReference, ResourceQuantities
from dra.api.reservations.model import Reservation, ReservationPhase, ReservationStatus
from dra.engine.instants import WallTime
from dra.engine.kube_scheduler import pod_requests
from dra.engine.reservations import gpu_shares, reservation_info, translated_templates
from dra.engine.reservations.gpu_shares import NO_ENTRIES, GpuEntry
from dra.engine.reservations.phases import Trigger, next_status
from dra.engine.reservations.pod_info import PodInfo
from dra.model import quantities
from dra.model.meta import Key, Struct, Uid
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerPod


class AssignedPod(Struct, frozen=True):
    """A pod that is counted in a reservation: on its node, not finished."""

    uid: Uid
    key: Key
    amounts: Amounts
    binding: bool = False
    """Whether the binding of the pod may still fail."""
    gpu_entries: frozenset[GpuEntry] = NO_ENTRIES
    """Entries for shares of GPUs."""

    @classmethod
    def from_pod_info(cls, info: PodInfo, *, binding: bool = False) -> "AssignedPod":
        """Return the AssignedPod of a pod that has been read."""
        return cls(uid=info.uid, key=info.key, amounts=info.amounts, binding=binding, gpu_entries=info.gpu_entries)

    @classmethod
    def from_pod(cls, pod: SchedulerPod, *, binding: bool = False) -> "AssignedPod":
        """Return the AssignedPod of a pod, whose annotations need not be readable."""
        return cls(
            uid=pod.metadata.uid,
            key=pod.metadata.key,
            amounts=pod_requests.pod_requests(pod),
            binding=binding,
            gpu_entries=gpu_shares.pod_entries(pod),
        )


def bound_status(
    reservation: Reservation, *, node: str, now: WallTime, pre_allocated_pods: Iterable[AssignedPod] = ()
) -> ReservationStatus | None:
    """Return the status of a reservation that gets its node; None if it cannot have one any longer.

    `pre_allocated_pods` are the running pods that the reservation is placed over: its first owner pods.

    Raises MalformedAmountsError or MalformedAnnotationError if the amounts to hold cannot be read.
    """
    if reservation.metadata.deletion_timestamp is not None:
        return None
    requests = reservation_info.reservation_requests(reservation)
    text = f"Capacity is reserved on node {node}"
    bound = next_status(reservation.status, Trigger.BOUND, now=now, message=text)
    if bound is None:
        return None
    placed = bound.model_copy(update={"node_name": node, "allocatable": _allocatable(reservation, requests)})
    assigned_pods = sorted(pre_allocated_pods, key=lambda pod: pod.uid)
    return placed if not assigned_pods else _with_owners(reservation, placed, assigned_pods)


def synced_status(
    reservation: Reservation,
    assigned_pods: Iterable[AssignedPod],
    *,
    now: WallTime,
    never_bound: AbstractSet[Uid] = frozenset(),
) -> ReservationStatus | None:
    """Return the status for the given pods; None if the status is up to date.

    `never_bound` are pods that the status may name although their binding is known to have failed.
    """
    status = reservation.status
    if status.phase is not ReservationPhase.AVAILABLE:
        return None
    assigned = sorted(assigned_pods, key=lambda pod: pod.uid)
    synced = _with_owners(reservation, _with_shares(reservation, status), assigned)
    if reservation.spec.allocate_once and _is_used_up(reservation, assigned, never_bound):
        message = "An owner pod uses the reservation (allocateOnce)"
        synced = next_status(synced, Trigger.ALLOCATED, now=now, message=message) or synced
    return None if synced == status else synced


def names_owner_before_binding(reservation: Reservation) -> bool:
    """Return whether the status must name an owner pod before the pod is bound.

    An allocateOnce reservation is given to no other pod from that write on; the controller gives a reservation's
    devices to the pods that the status names, and keeps the capacity of pods that the reservation was placed over. For
    all other reservations the annotation of the bound pod says the same, in the same write as the binding: the status
    may follow.
    """
    spec = reservation.spec
    return (
        spec.allocate_once
        or reservation_info.allows_pre_allocation(spec)
        or bool(reservation_info.template_resource_claims(reservation))
        or translated_templates.may_have_claims(spec.template, reservation.metadata.labels)
    )


def status_with_owner(reservation: Reservation, pod: AssignedPod) -> ReservationStatus | None:
    """Return the status with one more owner pod, which is binding; None if it names the pod already."""
    status = reservation.status
    if any(owner.uid == pod.uid for owner in status.current_owners):
        return None
    reference = ObjectReference(namespace=pod.key[0], name=pod.key[1], uid=pod.uid)
    return status.model_copy(
        update={
            "current_owners": tuple(sorted((*status.current_owners, reference), key=lambda owner: owner.uid)),
            "allocated": _allocated(
                status,
                quantities.add(_taken_amounts(status), pod.amounts),
                shares=_more_shares(status, gpu_shares.taken_shares(reservation, [pod.gpu_entries])),
            ),
        }
    )


def status_without_owner(reservation: Reservation, pod: AssignedPod) -> ReservationStatus | None:
    """Return the status without an owner pod that was never bound; None if it does not name the pod, or is final."""
    status = reservation.status
    rest = tuple(owner for owner in status.current_owners if owner.uid != pod.uid)
    if len(rest) == len(status.current_owners) or status.phase is not ReservationPhase.AVAILABLE:
        return None
    taken = quantities.subtract(_taken_amounts(status), pod.amounts) if rest else {}
    given_back = gpu_shares.taken_shares(reservation, [pod.gpu_entries])
    shares = quantities.subtract(_taken_shares(status), given_back) if rest else {}
    return status.model_copy(update={"current_owners": rest, "allocated": _allocated(status, taken, shares=shares)})


def resized_status(reservation: Reservation) -> ReservationStatus | None:
    """Return the status that holds the amounts now wanted; None if it does already, or the reservation has no node.

    Raises MalformedAmountsError or MalformedAnnotationError.
    """
    status, wanted = reservation.status, reservation_info.reservation_requests(reservation)
    if status.phase is not ReservationPhase.AVAILABLE or reservation_info.held_amounts(status) == wanted:
        return None
    return status.model_copy(update={"allocatable": _allocatable(reservation, wanted)})


def status_patch(before: ReservationStatus, after: ReservationStatus) -> dict[str, Any]:
    """Return the JSON merge patch from one status to another: fields that have changed, and null for removed keys."""
    old, new = (status.model_dump(mode="json", by_alias=True, exclude_none=True) for status in (before, after))
    patch: dict[str, Any] = {}
    for name, value in new.items():
        if isinstance(value, dict):
            gone = dict.fromkeys(old[name].keys() - value.keys())
            changed = {key: item for key, item in value.items() if old[name].get(key) != item}
            if gone or changed:
                patch[name] = {**changed, **gone}
        elif old.get(name) != value:
            patch[name] = [_without_empty(item) for item in value] if isinstance(value, list) else value
    return patch


def _without_empty(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value != ""}


def _with_owners(
    reservation: Reservation, status: ReservationStatus, assigned_pods: Sequence[AssignedPod]
) -> ReservationStatus:
    """Return a status with the given pods and with what the pods take."""
    taken = quantities.total(pod.amounts for pod in assigned_pods)
    shares = gpu_shares.taken_shares(reservation, [pod.gpu_entries for pod in assigned_pods])
    owners = tuple(ObjectReference(namespace=pod.key[0], name=pod.key[1], uid=pod.uid) for pod in assigned_pods)
    return status.model_copy(update={"current_owners": owners, "allocated": _allocated(status, taken, shares=shares)})


def _with_shares(reservation: Reservation, status: ReservationStatus) -> ReservationStatus:
    """Return a status that shows the shares of GPUs that a reservation holds."""
    shares = gpu_shares.held_shares(reservation)
    if not shares.keys() - status.allocatable.keys():
        return status
    return status.model_copy(update={"allocatable": {**status.allocatable, **_format_shares(shares)}})


def _allocatable(reservation: Reservation, amounts: Amounts) -> ResourceQuantities:
    like = pod_requests.template_quantities(reservation.spec.template)
    return {**format_resource_list(amounts, like=like), **_format_shares(gpu_shares.held_shares(reservation))}


def _allocated(status: ReservationStatus, taken: Amounts, *, shares: Amounts) -> ResourceQuantities:
    taken = {**translated_templates.without_gpus(taken), **shares}
    return format_resource_list(
        {name: taken[name] for name in status.allocatable if taken.get(name, 0) > 0}, like=status.allocatable
    )


def _taken_amounts(status: ReservationStatus) -> Amounts:
    return translated_templates.without_gpus(quantities.from_resource_list(status.allocated))


def _taken_shares(status: ReservationStatus) -> Amounts:
    amounts = quantities.from_resource_list(status.allocated)
    return {name: amount for name, amount in amounts.items() if name not in _taken_amounts(status)}


def _more_shares(status: ReservationStatus, more: Amounts) -> Amounts:
    """Return the shares that are taken with one more owner pod: an entry has one taker at a time."""
    held = quantities.from_resource_list(status.allocatable)
    taken = quantities.add(_taken_shares(status), more)
    return {name: min(amount, held.get(name, 0)) for name, amount in taken.items()}


def _format_shares(shares: Amounts) -> ResourceQuantities:
    return format_resource_list(shares, like=gpu_shares.UNITS)


def format_resource_list(amounts: Amounts, *, like: Mapping[str, str | int]) -> ResourceQuantities:
    """Return amounts as a resource list, in the units of another resource list."""
    return {name: quantities.format_quantity(amount, like=like.get(name, "")) for name, amount in amounts.items()}


def _is_used_up(reservation: Reservation, assigned_pods: list[AssignedPod], never_bound: AbstractSet[Uid]) -> bool:
    pre_allocated = reservation_info.pre_allocated_pods(reservation)
    assigned = {pod.uid for pod in assigned_pods}
    gone = {Uid(owner.uid) for owner in reservation.status.current_owners} - assigned - never_bound
    return bool(({pod.uid for pod in assigned_pods if not pod.binding} | gone) - pre_allocated)
