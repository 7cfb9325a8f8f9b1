"""The pods that keep a reservation's room where no extender does: placeholders that stay.

The first one finds the place, and stays there. When an owner comes, as much of them is deleted as the owner takes; what
is left over of the deleted ones gets a new one before they go (it *replaces* them). For an owner that runs there is an
*heir*, which takes over its room when it ends: it waits in kube-scheduler's queue all the time, kept off the node only
by its anti-affinity to that one owner, and comes first of all that wait. So nobody has to notice the end in time.

All have the priority class `CLASS`: nothing but the pods of the system is before them, and nobody makes room for them
(``preemptionPolicy: Never``). That policy has a second use: kube-scheduler leaves their ``nominatedNodeName`` alone
when it finds no room, and counts what is nominated for a node against all pods of no higher priority.

They have no labels of the template, unlike placeholders that are gone in a moment: a Service would send requests there.
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
    """One of them, as it is seen."""

    key: Key
    uid: Uid
    amounts: NanoAmounts
    """Without ``pods``: one of these comes with each pod, and goes with it."""
    node: str = ""
    """Where it is bound; empty while it waits."""
    nominated: str = ""
    standby_for: Uid = Uid("")
    replaces: frozenset[Uid] = frozenset()
    devices: bool = False
    """Whether it asked for the claims of the template."""
    ended: bool = False
    """Whether its node has ended it; only its name is taken then."""
    leaving: bool = False
    """Whether it is being deleted."""
    waits: str = ""
    """What kube-scheduler says of it."""

    @classmethod
    def of(cls, pod: SchedulerPod) -> "Placeholder":
        """Read a placeholder."""
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
    """Whether a placeholder is one of these, and not one that goes when it is bound."""
    return pod.spec.priority_class_name == PRIORITY_CLASS


def without_pods(held: NanoAmounts) -> dict[str, int]:
    """Return amounts of what placeholders can ask for."""
    return {name: amount for name, amount in held.items() if name != amounts.PODS and amount > 0}


def first_manifest(reservation: Reservation) -> dict[str, Any]:
    """Return the one that finds the place. Raises MalformedAmountsError or MalformedAnnotationError."""
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
    """Return one for the node where the reservation is; `standby_for` is a pod's uid and its namespace."""
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
    """Return the name of a placeholder; the first one has none of the numbers."""
    _, plain = placeholders.placeholder_key(reservation)
    return f"{plain}-{number}" if number else plain


def next_free_number(reservation: Reservation, taken: Iterable[str]) -> int:
    """Return the smallest number that no placeholder has."""
    used, number = set(taken), 0
    while numbered_name(reservation, number=number) in used:
        number += 1
    return number
