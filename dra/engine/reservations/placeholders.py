"""The pod that finds a place for a reservation: made from its template, bound once, and gone right after.

kube-scheduler knows nothing of reservations, but it can find a node for a pod with the template's constraints. So a pod
is made that asks for what is to be held and runs nothing but a pause image. When it is bound, the extender makes the
reservation available on that node instead; from then on the pod is of no use, and is deleted.

It has its reservation as its controller: garbage collection takes it away with that, and nobody else adopts it. Its
name is made of the reservation's uid, so that there is one at most, whoever makes it how often.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final

from dra.api.reservations import well_known
from dra.api.reservations.model import API_VERSION, KIND, Reservation
from dra.engine.reservations import amounts, ports, reservation_info
from dra.engine.reservations.amounts import NanoAmounts
from dra.model.meta import Key, ObjectMeta, Uid

NAME_PREFIX: Final = "reservation-"
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
"""Every node has one like it: it keeps the namespaces of each pod."""

KOORD_SCHEDULER: Final = "koord-scheduler"
DEFAULT_NAMESPACE: Final = "default"

_NAME_SUFFIX: Final = re.compile(r"(-[1-9][0-9]{0,5})?")
"""What comes after the uid in the names of those that stay (`keepers`): nothing, or a number."""

_SCHEDULING_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "preemptionPolicy",
    "resourceClaims",
)
"""What of a template says where its pod can go, past whom, and with which devices."""

_OWN_ANNOTATION_PREFIX: Final = "reserve.dra/"

_DROPPED_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",  # of the Reservation; as large as that
        "kubernetes.io/config.hash",  # these four make a pod a static one
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.seen",
        "kubernetes.io/config.source",
        well_known.ANNOTATION_RESERVATION_ALLOCATED,  # written by the scheduler
    }
)
"""Annotations of a template or a Reservation that say nothing about the pod, or something that is not true of it."""

_SECURITY_CONTEXT: Final = {
    "runAsNonRoot": True,
    "runAsUser": 65535,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What a namespace with the strictest Pod Security Standard asks for."""


def placeholder_key(reservation: Reservation) -> Key:
    """Return namespace and name of a reservation's placeholder."""
    template = reservation.spec.template
    metadata = template.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    namespace = named or template.get("namespace") or DEFAULT_NAMESPACE
    return (str(namespace), placeholder_name(reservation.metadata.uid))


def placeholder_name(uid: str) -> str:
    """Return the name of the placeholder of the reservation with that uid."""
    return f"{NAME_PREFIX}{uid}"


def reservation_uid_of(metadata: ObjectMeta) -> Uid | None:
    """Return the reservation that a pod is the placeholder of; None if it is an ordinary pod."""
    for reference in metadata.owner_references or ():
        if (reference.api_version, reference.kind, reference.controller) == (API_VERSION, KIND, True):
            first, _, number = metadata.name.removeprefix(NAME_PREFIX).partition(f"{reference.uid}")
            ours = metadata.name.startswith(NAME_PREFIX) and not first and _NAME_SUFFIX.fullmatch(number)
            return reference.uid if ours else None
    return None


def template_node_name(reservation: Reservation) -> str:
    """Return the node that the template names; empty if it names none."""
    spec = reservation.spec.template.get("spec")
    name = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def placeholder_manifest(reservation: Reservation, *, stays: bool = False) -> dict[str, Any]:
    """Return the pod. Raises MalformedAmountsError or MalformedAnnotationError: what is to be held cannot be read.

    With pre-allocation the pod requests 0 of cpu and memory: kube-scheduler counts the running pods whose place the
    reservation is to take, and would refuse their node before the extender is asked. The extender judges the amounts.
    `stays`: the pod keeps the room itself, so it always requests what is held.
    """
    _, name = placeholder_key(reservation)
    template = reservation.spec.template
    given = template.get("spec") or {}
    spec = {field: deepcopy(given[field]) for field in _SCHEDULING_FIELDS if given.get(field) is not None}
    if node := template_node_name(reservation):
        spec["affinity"] = require_node(node, spec.get("affinity") or {})
    spec["schedulerName"] = given.get("schedulerName") or KOORD_SCHEDULER
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
    if reservation_info.allows_pre_allocation(reservation.spec) and not stays:
        # Written as 0, not left out: a ResourceQuota refuses pods without, and a LimitRange would set its defaults.
        (container,) = pod["spec"]["containers"]
        container["resources"] = {"requests": dict.fromkeys(("cpu", "memory"), "0")}
    elif not stays and (used := ports.template_host_ports(template)):
        (container,) = pod["spec"]["containers"]
        container["ports"] = ports.container_ports(used)
    return pod


def _template_metadata(template: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    metadata = template.get("metadata")
    return (metadata.get(field) if isinstance(metadata, Mapping) else None) or {}


def _filter_annotations(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations that describe the pod to schedulers and admission."""
    return {
        name: text
        for name, text in annotations.items()
        if name not in _DROPPED_ANNOTATIONS and not name.startswith(_OWN_ANNOTATION_PREFIX)
    }


def pause_pod_manifest(
    reservation: Reservation,
    *,
    name: str,
    wanted: NanoAmounts,
    spec: Mapping[str, Any],
    labels: Mapping[str, str] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a pod of a reservation that asks for these amounts, and runs nothing."""
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
                    "image": PAUSE_IMAGE,
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


def _resources(reservation: Reservation, held: NanoAmounts) -> dict[str, Any]:
    like = amounts.template_quantities(reservation.spec.template)
    wanted = {
        name: amounts.format_quantity(amount, like=like.get(name, ""))
        for name, amount in held.items()
        if name != amounts.PODS  # of those the node counts one for each pod
    }
    whole = {name: text for name, text in wanted.items() if "/" in name or name.startswith("hugepages-")}
    return {"requests": wanted, **({"limits": whole} if whole else {})}  # the API server wants both for these


def require_node(node: str, affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an affinity that requires this node as well: each of its terms does."""
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
