"""The manifests of placeholders that keep a reservation's capacity in mode yielding, where no extender does.

The first placeholder finds the node and stays there. When an owner pod comes, placeholders are deleted as far as the
pod needs their capacity; a new placeholder takes the rest of a deleted one before that one goes (it *replaces* the old
one). Each running owner pod has a *standby* placeholder, which takes over the pod's capacity when the pod ends: the
standby waits in kube-scheduler's queue all the time, kept off the node only by its anti-affinity to that one pod, and
is scheduled before all other pending pods. So no component has to notice the end in time.

All have the priority class `PRIORITY_CLASS`: only system pods rank before placeholders, and no placeholder preempts
(``preemptionPolicy: Never``). That policy has a second use: kube-scheduler leaves the ``nominatedNodeName`` of such a
pod alone when no node fits, and counts a pod nominated for a node against all pods of no higher priority.

Placeholders that stay have no labels of the template, unlike those that are deleted once bound: a Service would send
requests to a placeholder that stays.
"""

from collections.abc import Iterable
from typing import Any, Final

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.engine.reservations import amounts, placeholders
from dra.engine.reservations.amounts import NanoAmounts
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import DEFAULT_SCHEDULER, SchedulerPod

PRIORITY_CLASS: Final = "dra-reserve-placeholder"
"""Name of the priority class (deploy/reservations-yielding/priority-class.yaml)."""

_TOPOLOGY_KEY: Final = "kubernetes.io/hostname"


class Placeholder(Struct, frozen=True):
    """A placeholder in mode yielding, as observed."""

    key: Key
    uid: Uid
    amounts: NanoAmounts
    """Requests without ``pods``: each pod takes one of these by itself."""
    node: str = ""
    """Node to which the placeholder is bound; empty while it is pending."""
    nominated: str = ""
    standby_for: Uid = Uid("")
    replaces: frozenset[Uid] = frozenset()
    devices: bool = False
    """Whether the placeholder requests the claims of the template."""
    ended: bool = False
    """Whether the kubelet has ended the placeholder; then it takes nothing but its name."""
    leaving: bool = False
    """Whether the placeholder is being deleted."""
    waits: str = ""
    """Message of kube-scheduler for a placeholder that cannot be scheduled; empty otherwise."""

    @classmethod
    def of(cls, pod: SchedulerPod) -> "Placeholder":
        """Return the Placeholder of a placeholder pod."""
        meta, condition = pod.metadata, pod.condition(POD_SCHEDULED)
        refused = condition is not None and condition.status == "False" and not pod.spec.node_name
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=without_pods(amounts.pod_amounts(pod)),
            node=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            standby_for=Uid(meta.annotation(well_known.ANNOTATION_STANDBY_FOR) or ""),
            replaces=frozenset(
                Uid(uid) for uid in (meta.annotation(well_known.ANNOTATION_REPLACES) or "").split(",") if uid
            ),
            devices=bool(pod.spec.resource_claims),
            ended=pod.terminal,
            leaving=meta.deleting,
            waits=condition.message if condition is not None and refused else "",
        )


def is_yielding_placeholder(pod: SchedulerPod) -> bool:
    """Return whether a placeholder stays (mode yielding), unlike those that are deleted once bound."""
    return pod.spec.priority_class_name == PRIORITY_CLASS


def without_pods(held: NanoAmounts) -> dict[str, int]:
    """Return amounts without ``pods`` and without zeros: what placeholders can request."""
    return {name: amount for name, amount in held.items() if name != amounts.PODS and amount > 0}


def first_manifest(reservation: Reservation) -> dict[str, Any]:
    """Return the placeholder that finds the node. Raises MalformedAmountsError or MalformedAnnotationError."""
    made = placeholders.placeholder_manifest(reservation, stays=True)
    made["metadata"]["labels"] = {well_known.LABEL_PLACEHOLDER: well_known.TRUE}
    made["metadata"]["annotations"] = {well_known.ANNOTATION_RESERVATION_NAME: reservation.metadata.name}
    spec = made["spec"]
    spec.pop("preemptionPolicy", None)
    given = (reservation.spec.template.get("spec") or {}).get("schedulerName")
    spec |= {"priorityClassName": PRIORITY_CLASS, "schedulerName": given or DEFAULT_SCHEDULER}
    return made


def additional_manifest(
    reservation: Reservation,
    *,
    number: int,
    keeps: NanoAmounts,
    standby_for: tuple[Uid, str] | None = None,
    replaces: Iterable[Uid] = (),
) -> dict[str, Any]:
    """Return a placeholder for the reservation's node; `standby_for` is the uid and the namespace of an owner pod."""
    given = reservation.spec.template.get("spec") or {}
    affinity = placeholders.require_node(reservation.status.node_name, {})
    annotations: dict[str, str] = {}
    if standby_for is not None:
        uid, namespace = standby_for
        annotations[well_known.ANNOTATION_STANDBY_FOR] = uid
        it = {
            "labelSelector": {"matchLabels": {well_known.LABEL_INSIDE: uid}},
            "namespaces": [namespace],
            "topologyKey": _TOPOLOGY_KEY,
        }
        affinity |= {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [it]}}
    if gone := ",".join(sorted(replaces)):
        annotations[well_known.ANNOTATION_REPLACES] = gone
    return placeholders.pause_pod_manifest(
        reservation,
        name=numbered_name(reservation, number=number),
        wanted=keeps,
        spec={
            "affinity": affinity,
            "priorityClassName": PRIORITY_CLASS,
            "schedulerName": given.get("schedulerName") or DEFAULT_SCHEDULER,
            **({"tolerations": given["tolerations"]} if given.get("tolerations") else {}),
        },
        annotations=annotations,
    )


def numbered_name(reservation: Reservation, *, number: int) -> str:
    """Return the name of a placeholder; the first one has number 0 and no suffix."""
    _, plain = placeholders.placeholder_key(reservation)
    return f"{plain}-{number}" if number else plain


def next_free_number(reservation: Reservation, taken: Iterable[str]) -> int:
    """Return the smallest number whose name is not taken."""
    used, number = set(taken), 0
    while numbered_name(reservation, number=number) in used:
        number += 1
    return number
