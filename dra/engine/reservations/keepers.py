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

from dra.api.reservations.model import Reservation
from dra.engine.reservations import amounts, marks, placeholders
from dra.engine.reservations.amounts import Amounts
from dra.model.meta import Key, Struct, Uid
from dra.model.placement import DEFAULT_SCHEDULER, PlacedPod
from dra.model.pods import SCHEDULED

CLASS: Final = "dra-reserve-placeholder"
"""Name of the priority class (deploy/reservations-yielding/priority-class.yaml)."""

_HOST: Final = "kubernetes.io/hostname"


class Keeper(Struct, frozen=True):
    """One of them, as it is seen."""

    key: Key
    uid: Uid
    amounts: Amounts
    """Without ``pods``: one of these comes with each pod, and goes with it."""
    node: str = ""
    """Where it is bound; empty while it waits."""
    nominated: str = ""
    heir_of: Uid = Uid("")
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
    def of(cls, pod: PlacedPod) -> "Keeper":
        """Read a placeholder."""
        meta, condition = pod.metadata, pod.condition(SCHEDULED)
        refused = condition is not None and condition.status == "False" and not pod.spec.node_name
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=without_pods(amounts.of_pod(pod)),
            node=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            heir_of=Uid(meta.annotation(marks.HEIR_OF) or ""),
            replaces=frozenset(Uid(uid) for uid in (meta.annotation(marks.REPLACES) or "").split(",") if uid),
            devices=bool(pod.spec.resource_claims),
            ended=pod.terminal,
            leaving=meta.deleting,
            waits=condition.message if condition is not None and refused else "",
        )


def stays(pod: PlacedPod) -> bool:
    """Whether a placeholder is one of these, and not one that goes when it is bound."""
    return pod.spec.priority_class_name == CLASS


def without_pods(held: Amounts) -> dict[str, int]:
    """Return amounts of what placeholders can ask for."""
    return {name: amount for name, amount in held.items() if name != amounts.PODS and amount > 0}


def first(reservation: Reservation) -> dict[str, Any]:
    """Return the one that finds the place. Raises MalformedAmountsError or MalformedAnnotationError."""
    made = placeholders.manifest(reservation, stays=True)
    made["metadata"]["labels"] = {marks.PLACEHOLDER: marks.TRUE}
    made["metadata"]["annotations"] = {marks.RESERVATION_NAME: reservation.metadata.name}
    spec = made["spec"]
    spec.pop("preemptionPolicy", None)
    given = (reservation.spec.template.get("spec") or {}).get("schedulerName")
    spec |= {"priorityClassName": CLASS, "schedulerName": given or DEFAULT_SCHEDULER}
    return made


def another(
    reservation: Reservation,
    *,
    number: int,
    keeps: Amounts,
    heir_of: tuple[Uid, str] | None = None,
    replaces: Iterable[Uid] = (),
) -> dict[str, Any]:
    """Return one for the node where the reservation is; `heir_of` is a pod's uid and its namespace."""
    given = reservation.spec.template.get("spec") or {}
    affinity = placeholders.on(reservation.status.node_name, {})
    annotations: dict[str, str] = {}
    if heir_of is not None:
        uid, namespace = heir_of
        annotations[marks.HEIR_OF] = uid
        it = {"labelSelector": {"matchLabels": {marks.INSIDE: uid}}, "namespaces": [namespace], "topologyKey": _HOST}
        affinity |= {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [it]}}
    if gone := ",".join(sorted(replaces)):
        annotations[marks.REPLACES] = gone
    return placeholders.pausing(
        reservation,
        name=name(reservation, number=number),
        wanted=keeps,
        spec={
            "affinity": affinity,
            "priorityClassName": CLASS,
            "schedulerName": given.get("schedulerName") or DEFAULT_SCHEDULER,
            **({"tolerations": given["tolerations"]} if given.get("tolerations") else {}),
        },
        annotations=annotations,
    )


def name(reservation: Reservation, *, number: int) -> str:
    """Return the name of a placeholder; the first one has none of the numbers."""
    _, plain = placeholders.key(reservation)
    return f"{plain}-{number}" if number else plain


def unused(reservation: Reservation, taken: Iterable[str]) -> int:
    """Return the smallest number that no placeholder has."""
    used, number = set(taken), 0
    while name(reservation, number=number) in used:
        number += 1
    return number
