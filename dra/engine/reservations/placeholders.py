"""The placeholder pod that finds a node for a reservation: made from the template, bound once, then deleted.

kube-scheduler knows nothing of reservations, but it can find a node for a pod with the template's constraints. So the
controller creates a pod that requests what is to be held and runs only the pause image. When that pod is bound, the
extender makes the reservation available on the node instead; from then on the pod is useless and is deleted.

The reservation is the controller of its placeholder: the garbage collector deletes the pod with the reservation, and no
other controller adopts the pod. The name contains the reservation's uid, so there is at most one such pod, however
often and by whichever replica it is created.
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
"""Each node has a similar image already: that of the pause container, which holds the namespaces of a pod."""

KOORD_SCHEDULER: Final = "koord-scheduler"
DEFAULT_NAMESPACE: Final = "default"

_NAME_SUFFIX: Final = re.compile(r"(-[1-9][0-9]{0,5})?")
"""Suffix after the uid in names of placeholders that stay (`keepers`): nothing, or a number."""

_SCHEDULING_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "preemptionPolicy",
    "resourceClaims",
)
"""Fields of a template that decide on which nodes a pod can run, which pods it may preempt, and its devices."""

_OWN_ANNOTATION_PREFIX: Final = "reserve.dra/"

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
    template = reservation.spec.template
    metadata = template.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    namespace = named or template.get("namespace") or DEFAULT_NAMESPACE
    return (str(namespace), placeholder_name(reservation.metadata.uid))


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


def template_node_name(reservation: Reservation) -> str:
    """Return the node that the template names; empty if the template names none."""
    spec = reservation.spec.template.get("spec")
    name = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def placeholder_manifest(reservation: Reservation, *, stays: bool = False) -> dict[str, Any]:
    """Return the placeholder of a reservation.

    Raises MalformedAmountsError or MalformedAnnotationError if the amounts to hold cannot be read.

    With pre-allocation the pod requests 0 of cpu and memory: kube-scheduler counts the running pods whose place the
    reservation is to take, and would reject their node before it calls the extender. The extender checks the amounts.
    `stays`: the pod keeps the capacity itself, so it always requests what is held.
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
        # Written as 0, not omitted: a ResourceQuota rejects pods without requests, and a LimitRange would set its
        # defaults.
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
    """Return the annotations that describe the pod to schedulers and admission plugins."""
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
        if name != amounts.PODS  # the node counts one of these for each pod
    }
    whole = {name: text for name, text in wanted.items() if "/" in name or name.startswith("hugepages-")}
    return {"requests": wanted, **({"limits": whole} if whole else {})}  # the API server requires both for these


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
