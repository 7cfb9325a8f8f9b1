"""The placeholder pod that finds a node for a reservation: made from the template, bound once, then deleted.

kube-scheduler knows nothing of reservations, but it can find a node for a pod with the template's constraints. So the
controller creates a pod that requests what is to be held and runs only the pause image. When that pod is bound, the
extender makes the reservation available on the node instead; from then on the pod is useless and is deleted.

The reservation is the controller of its placeholder: the garbage collector deletes the pod with the reservation, and no
other controller adopts the pod. The name contains the reservation's uid, so there is at most one such pod, however
often and by whichever replica it is created.

A reservation preempts no pods unless it is asked to (`may_preempt`). A pod has the preemption policy of its
PriorityClass and cannot have another one, so the extender decides: its answer to ``preempt`` names no node.

In mode yielding placeholders stay, and keep the capacity where no extender does. The first placeholder finds the node
and stays there. When an owner pod comes, placeholders are deleted as far as the pod needs their capacity; a new
placeholder takes the rest of a deleted one before that one goes (it *replaces* the old one). Each running owner pod has
a *standby* placeholder, which takes over the pod's capacity when the pod ends: the standby waits in kube-scheduler's
queue all the time, kept off the node only by its anti-affinity to that one pod, and is scheduled before all other
pending pods. So no component has to notice the end in time.

All have the priority class `PRIORITY_CLASS`: only system pods rank before placeholders, and no placeholder preempts
(``preemptionPolicy: Never``). That policy has a second use: kube-scheduler leaves the ``nominatedNodeName`` of such a
pod alone when no node fits, and counts a pod nominated for a node against all pods of no higher priority.

Placeholders that stay have no labels of the template, unlike those that are deleted once bound: a Service would send
requests to a placeholder that stays.
"""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final

from dra.api.migration.model import GROUP
from dra.api.migration.model import KIND as MIGRATION_KIND
from dra.api.reservations import well_known
from dra.api.reservations.model import API_VERSION, KIND, Reservation
from dra.engine.kube_scheduler import pod_requests
from dra.engine.reservations import pod_info, reservation_info, translated_templates
from dra.model import quantities
from dra.model.meta import Key, ObjectMeta, Struct, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.preemption import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER
from dra.model.quantities import Amounts
from dra.model.scheduling import DEFAULT_SCHEDULER, SchedulerPod

NAME_PREFIX: Final = "reservation-"

KOORD_SCHEDULER: Final = "koord-scheduler"

_NAME_SUFFIX: Final = re.compile(r"(-[1-9][0-9]{0,5})?")
"""Suffix after the uid in names of placeholders that stay (mode yielding): nothing, or a number."""

_SCHEDULING_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "resourceClaims",
)
"""Fields of a template that decide on which nodes a pod can run, in which order it is scheduled, and its devices.

``preemptionPolicy`` is not among them: the API server rejects a pod whose policy differs from its PriorityClass. The
extender applies the policy (`may_preempt`).
"""

SYSTEM_CLASSES: Final = frozenset({"system-node-critical", "system-cluster-critical"})
"""Priority classes that no placeholder has: kube-scheduler would end pods of users for a pod that runs nothing."""

_DROPPED_PREFIXES: Final = ("reserve.dra/", "container.apparmor.security.beta.kubernetes.io/")
"""Prefixes of annotations that are those of dra-reserve, or name containers of the template."""

_DROPPED_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",  # of the Reservation; as large as the object itself
        "kubernetes.io/config.hash",  # these four make a pod a static one
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.seen",
        "kubernetes.io/config.source",
        well_known.ANNOTATION_RESERVATION_ALLOCATED,  # written by the scheduler
    }
)
"""Annotations of a template or a Reservation that do not describe the placeholder, or would be wrong on it."""

_SECURITY_CONTEXT: Final = {
    "runAsNonRoot": True,
    "runAsUser": 65535,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Settings that the strictest Pod Security Standard (Restricted) requires."""


def placeholder_key(reservation: Reservation) -> Key:
    """Return the namespace and name of a reservation's placeholder."""
    return (reservation_info.template_namespace(reservation), placeholder_name(reservation.metadata.uid))


def placeholder_name(uid: str) -> str:
    """Return the name of the placeholder of the reservation with the given uid."""
    return f"{NAME_PREFIX}{uid}"


def reservation_uid_of(metadata: ObjectMeta) -> Uid | None:
    """Return the uid of the reservation whose placeholder a pod is; None for any other pod."""
    for reference in metadata.owner_references or ():
        if (reference.api_version, reference.kind, reference.controller) == (API_VERSION, KIND, True):
            first, _, number = metadata.name.removeprefix(NAME_PREFIX).partition(f"{reference.uid}")
            ours = metadata.name.startswith(NAME_PREFIX) and not first and _NAME_SUFFIX.fullmatch(number)
            return reference.uid if ours else None
    return None


def may_preempt(reservation: Reservation) -> bool:
    """Return whether the placeholder may preempt pods of a lower priority: only if the reservation asks for that.

    The template of a migration is a copy of a running pod, with the policy that the API server has written into each
    pod. So for a migration only the label asks, which its job sets (``preemptionOptions.enablePreemption``).
    """
    policy = reservation.metadata.labels.get(well_known.LABEL_PREEMPTION_POLICY)
    if policy not in (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER) and not _is_for_migration(reservation):
        spec = reservation.spec.template.get("spec")
        policy = spec.get("preemptionPolicy") if isinstance(spec, Mapping) else None
    return policy == PREEMPT_LOWER_PRIORITY


def _is_for_migration(reservation: Reservation) -> bool:
    owner = reservation.metadata.controller
    return owner is not None and owner.kind == MIGRATION_KIND and owner.api_version.startswith(f"{GROUP}/")


def scheduler_name(reservation: Reservation) -> str:
    """Return the scheduler that the template names; empty if the template names none."""
    spec = reservation.spec.template.get("spec")
    name = spec.get("schedulerName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def placeholder_manifest(
    reservation: Reservation, *, keeps_capacity: bool = False, supports_claims: bool = True
) -> dict[str, Any]:
    """Return the placeholder of a reservation.

    Raises MalformedAmountsError or MalformedAnnotationError if the amounts to hold cannot be read.

    With pre-allocation the pod requests 0 of cpu and memory: kube-scheduler counts the running pods whose place the
    reservation is to take, and would reject their node before it calls the extender. The extender checks the amounts.
    `keeps_capacity`: the pod keeps the capacity itself, so it always requests what is held. `supports_claims`: claims
    of the pod are handed over to owner pods; otherwise it gets none for CPUs, of which the amount is held.
    """
    _, name = placeholder_key(reservation)
    template = reservation.spec.template
    given = template.get("spec") or {}
    spec = {field: deepcopy(given[field]) for field in _SCHEDULING_FIELDS if given.get(field) is not None}
    if spec.get("priorityClassName") in SYSTEM_CLASSES:
        del spec["priorityClassName"]
    if node := reservation_info.template_node_name(reservation):
        spec["affinity"] = require_node(node, spec.get("affinity") or {})
    spec["schedulerName"] = scheduler_name(reservation) or KOORD_SCHEDULER
    wanted = reservation_info.reservation_requests(reservation)
    pod = pause_pod_manifest(
        reservation,
        name=name,
        wanted=wanted,
        spec=spec,
        labels={**_template_metadata(template, "labels"), **reservation.metadata.labels},
        annotations=_filter_annotations(
            {**_template_metadata(template, "annotations"), **reservation.metadata.annotations}
        ),
    )
    if reservation_info.allows_pre_allocation(reservation.spec) and not keeps_capacity:
        # Written as 0, not omitted: a ResourceQuota rejects pods without requests, and a LimitRange would set its
        # defaults.
        (container,) = pod["spec"]["containers"]
        container["resources"] = {"requests": dict.fromkeys(("cpu", "memory"), "0")}
    elif not keeps_capacity and (used := pod_info.template_host_ports(template)):
        (container,) = pod["spec"]["containers"]
        container["ports"] = pod_info.container_ports(used)
    if supports_claims and (keeps_capacity or not reservation_info.allows_pre_allocation(reservation.spec)):
        translated_templates.bind_cpus(pod)
    else:
        translated_templates.leave_cpus(pod)
    translated_templates.add_gpus(pod["spec"], template)
    return pod


def _template_metadata(template: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    metadata = template.get("metadata")
    return (metadata.get(field) if isinstance(metadata, Mapping) else None) or {}


def _filter_annotations(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations that describe the pod to schedulers and admission plugins."""
    return {
        name: text
        for name, text in annotations.items()
        if name not in _DROPPED_ANNOTATIONS and not name.startswith(_DROPPED_PREFIXES)
    }


def pause_pod_manifest(
    reservation: Reservation,
    *,
    name: str,
    wanted: Amounts,
    spec: Mapping[str, Any],
    labels: Mapping[str, str] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a pod of a reservation that requests the given amounts and runs the pause container."""
    return {
        "metadata": {
            "namespace": placeholder_key(reservation)[0],
            "name": name,
            "labels": {**labels, well_known.LABEL_PLACEHOLDER: well_known.TRUE},
            "annotations": {**annotations, well_known.ANNOTATION_RESERVATION_NAME: reservation.metadata.name},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": reservation.metadata.name,
                    "uid": reservation.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            **spec,
            "containers": [
                {
                    "name": "placeholder",
                    "image": well_known.PAUSE_IMAGE,
                    "resources": _resources(reservation, wanted),
                    "securityContext": _SECURITY_CONTEXT,
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
        },
    }


def with_image(manifest: Mapping[str, Any], image: str) -> dict[str, Any]:
    """Return a placeholder whose containers have another image, such as a copy of the pause image."""
    spec = manifest["spec"]
    kinds = {kind for kind in ("containers", "initContainers") if kind in spec}
    changed = {kind: [{**container, "image": image} for container in spec[kind]] for kind in kinds}
    return {**manifest, "spec": {**spec, **changed}}


def _resources(reservation: Reservation, requests: Amounts) -> dict[str, Any]:
    like = pod_requests.template_quantities(reservation.spec.template)
    texts = {
        name: quantities.format_quantity(amount, like=like.get(name, ""))
        for name, amount in requests.items()
        if name != quantities.PODS  # the node counts one of these for each pod
    }
    whole = {name: text for name, text in texts.items() if "/" in name or name.startswith("hugepages-")}
    return {"requests": texts, **({"limits": whole} if whole else {})}  # the API server requires both for these


def require_node(node: str, affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an affinity that requires the given node as well, in each of its node selector terms."""
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    required = of_nodes.get(_REQUIRED) or {}
    this = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), this]}
        for term in required.get("nodeSelectorTerms") or _ANY_NODE_TERMS
    ]
    return {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": terms}}}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ANY_NODE_TERMS: Final[tuple[Mapping[str, Any], ...]] = ({},)

PRIORITY_CLASS: Final = "dra-reserve-placeholder"
"""Name of the priority class (deploy/reservations-yielding/priority-class.yaml)."""

_TOPOLOGY_KEY: Final = "kubernetes.io/hostname"


class Placeholder(Struct, frozen=True):
    """A placeholder in mode yielding, as observed."""

    key: Key
    uid: Uid
    amounts: Amounts
    """Requests without ``pods``: each pod takes one of these by itself."""
    node: str = ""
    """Node to which the placeholder is bound; empty while it is pending."""
    nominated: str = ""
    standby_for: Uid = Uid("")
    replaces: frozenset[Uid] = frozenset()
    has_claims: bool = False
    """Whether the placeholder requests the claims of the template."""
    is_terminal: bool = False
    """Whether the kubelet has ended the placeholder; then it takes nothing but its name."""
    deleting: bool = False
    """Whether the placeholder is being deleted."""
    unschedulable_message: str = ""
    """Message of kube-scheduler for a placeholder that cannot be scheduled; empty otherwise."""

    @classmethod
    def from_pod(cls, pod: SchedulerPod) -> "Placeholder":
        """Return the Placeholder of a placeholder pod."""
        meta, condition = pod.metadata, pod.condition(POD_SCHEDULED)
        unschedulable = condition is not None and condition.status == "False" and not pod.spec.node_name
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=without_pods(pod_requests.pod_requests(pod)),
            node=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            standby_for=Uid(meta.annotation(well_known.ANNOTATION_STANDBY_FOR) or ""),
            replaces=frozenset(
                Uid(uid) for uid in (meta.annotation(well_known.ANNOTATION_REPLACES) or "").split(",") if uid
            ),
            has_claims=bool(pod.spec.resource_claims),
            is_terminal=pod.terminal,
            deleting=meta.deleting,
            unschedulable_message=condition.message if condition is not None and unschedulable else "",
        )


def is_yielding_placeholder(pod: SchedulerPod) -> bool:
    """Return whether a placeholder stays (mode yielding), unlike those that are deleted once bound."""
    return pod.spec.priority_class_name == PRIORITY_CLASS


def without_pods(amounts: Amounts) -> dict[str, int]:
    """Return amounts without ``pods`` and without zeros: what placeholders can request."""
    return {name: amount for name, amount in amounts.items() if name != quantities.PODS and amount > 0}


def first_manifest(reservation: Reservation, *, supports_claims: bool = True) -> dict[str, Any]:
    """Return the placeholder that finds the node. Raises MalformedAmountsError or MalformedAnnotationError."""
    made = placeholder_manifest(reservation, keeps_capacity=True, supports_claims=supports_claims)
    labels, annotations = translated_templates.binding_metadata(made)
    made["metadata"]["labels"] = {**labels, well_known.LABEL_PLACEHOLDER: well_known.TRUE}
    made["metadata"]["annotations"] = {
        **annotations,
        well_known.ANNOTATION_RESERVATION_NAME: reservation.metadata.name,
    }
    spec = made["spec"]
    given = (reservation.spec.template.get("spec") or {}).get("schedulerName")
    spec |= {"priorityClassName": PRIORITY_CLASS, "schedulerName": given or DEFAULT_SCHEDULER}
    return made


def additional_manifest(
    reservation: Reservation,
    *,
    number: int,
    requests: Amounts,
    standby_for: tuple[Uid, str] | None = None,
    replaces: Iterable[Uid] = (),
) -> dict[str, Any]:
    """Return a placeholder for the reservation's node; `standby_for` is the uid and the namespace of an owner pod."""
    given = reservation.spec.template.get("spec") or {}
    affinity = require_node(reservation.status.node_name, {})
    annotations: dict[str, str] = {}
    if standby_for is not None:
        uid, namespace = standby_for
        annotations[well_known.ANNOTATION_STANDBY_FOR] = uid
        term = {
            "labelSelector": {"matchLabels": {well_known.LABEL_INSIDE: uid}},
            "namespaces": [namespace],
            "topologyKey": _TOPOLOGY_KEY,
        }
        affinity |= {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if gone := ",".join(sorted(replaces)):
        annotations[well_known.ANNOTATION_REPLACES] = gone
    return pause_pod_manifest(
        reservation,
        name=numbered_name(reservation, number=number),
        wanted=requests,
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
    _, plain = placeholder_key(reservation)
    return f"{plain}-{number}" if number else plain


def next_free_number(reservation: Reservation, taken: Iterable[str]) -> int:
    """Return the smallest number whose name is not taken."""
    used, number = set(taken), 0
    while numbered_name(reservation, number=number) in used:
        number += 1
    return number


def untried_text(pod: SchedulerPod) -> str:
    """Return what users read while no scheduler has tried a placeholder."""
    scheduler = pod.spec.scheduler_name
    return f"no scheduler has tried its placeholder yet; check that a scheduler runs with the name {scheduler}"
