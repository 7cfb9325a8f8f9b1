"""The Reservation that a job creates: room for the pod that replaces the migrated pod, on another node.

The name is the job's uid, so there is at most one, however often and by whichever replica it is created. The job is the
controller of its Reservation: the garbage collector deletes the Reservation with the job. Anybody who may create
Reservations may choose this name, so the name alone makes no Reservation the job's (`is_created_by`).

A template of the user (``spec.reservationOptions.template``) is the base, and its gaps are filled from the pod. A spec
without containers has a gap: it adds to the pod's own spec, and its node affinity can only exclude further nodes. Fixed
are the name, ``allocateOnce`` and the exclusion of the pod's node: without those a job could evict a pod for nothing.
The Reservation may preempt other pods only if the job says so (``preemptionOptions.enablePreemption``).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dra.api.durations import format_duration
from dra.api.koordinator.well_known import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESOURCE_STATUS
from dra.api.migration import model as migration_model
from dra.api.migration import well_known
from dra.api.migration.model import PodMigrationJob
from dra.api.reservations import model as reservation_model
from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import (
    ANNOTATION_RESERVATION_ALLOCATED,
    LABEL_PREEMPTION_POLICY,
    LABEL_RESERVATION_ORDER,
)
from dra.engine.instants import WallTime
from dra.engine.reservations.reservation_info import creator_of
from dra.model.preemption import PREEMPT_LOWER_PRIORITY

_OWN_PREFIX: Final = "reserve.dra/"
_DROPPED_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",  # as large as the object itself
        "kubernetes.io/config.hash",  # these four make a pod a static one
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.seen",
        "kubernetes.io/config.source",
        ANNOTATION_RESERVATION_ALLOCATED,  # written by the scheduler
        ANNOTATION_DEVICE_ALLOCATED,  # reports of what the pod was given on its node
        ANNOTATION_RESOURCE_STATUS,
    }
)
_DROPPED_FIELDS: Final = frozenset({"nodeName", "schedulingGates", "ephemeralContainers", "preemptionPolicy"})
"""Fields of a pod's spec that describe this pod alone, not its replacement; the job says whether to preempt pods."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM_FIELDS: Final = ("matchExpressions", "matchFields")

TEMPLATE_SIZE_MAX: Final = 64 << 10
"""Maximum bytes of a complete template, a quarter of what a Reservation may have (`dra.cli.size_policies`)."""

ANNOTATION_LENGTH_MAX: Final = 1024
"""Maximum length of an annotation in a large template; those that schedulers read are shorter."""

_CONTAINER_LISTS: Final = ("containers", "initContainers")
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "ports", "restartPolicy")
"""Fields of a container that decide what a node must have; the image is required."""


def reservation_manifest(
    job: PodMigrationJob, pod: Mapping[str, Any], *, ttl: int, pending: bool, now: WallTime
) -> dict[str, Any]:
    """Return the Reservation that a job creates.

    `pod` is the pod as in the API, `ttl` the job's time to live in nanoseconds (0: unlimited), `pending` is whether the
    pod has no node yet: then the Reservation is for this very pod.
    """
    options = job.spec.reservation_options
    given = options.template if options is not None else None
    metadata, spec = _mapping(given, "metadata"), dict(_mapping(given, "spec"))
    labels = {name: value for name, value in _mapping(metadata, "labels").items() if name != LABEL_PREEMPTION_POLICY}
    if options is not None and options.may_preempt:
        labels[LABEL_PREEMPTION_POLICY] = PREEMPT_LOWER_PRIORITY
    lifetime = {} if "ttl" in spec or "expires" in spec else {"ttl": format_duration(ttl)}
    return {
        "apiVersion": reservation_model.API_VERSION,
        "kind": reservation_model.KIND,
        "metadata": {
            "name": job.metadata.uid,
            "labels": {
                LABEL_RESERVATION_ORDER: str(int(now * 1000)),
                **labels,
                well_known.LABEL_CREATED_BY: well_known.CREATED_BY,
            },
            "annotations": dict(_mapping(metadata, "annotations")),
            "ownerReferences": [
                {
                    "apiVersion": migration_model.API_VERSION,
                    "kind": migration_model.KIND,
                    "name": job.metadata.name,
                    "uid": job.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            **spec,
            **lifetime,
            "template": _template(_mapping(spec, "template"), pod),
            "owners": spec.get("owners") or _owners(pod, pending=pending),
            "allocateOnce": True,
        },
    }


def controller_reference(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference of a pod's controller; None for a pod without a controller."""
    references = _mapping(pod, "metadata").get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def _owners(pod: Mapping[str, Any], *, pending: bool) -> list[dict[str, Any]]:
    metadata, controller = _mapping(pod, "metadata"), controller_reference(pod)
    if pending or controller is None:
        return [{"object": {name: metadata[name] for name in ("uid", "name", "namespace") if metadata.get(name)}}]
    reference = {name: controller[name] for name in ("apiVersion", "kind", "name", "uid") if controller.get(name)}
    return [{"controller": {**reference, "controller": True, "namespace": metadata.get("namespace", "")}}]


def _template(given: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of the Reservation: the user's, with gaps filled from the pod."""
    metadata = _mapping(pod, "metadata")
    of_pod = {
        "namespace": metadata.get("namespace", ""),
        "labels": _retained(_mapping(metadata, "labels")),
        "annotations": _retained(_mapping(metadata, "annotations")),
    }
    own = {name: value for name, value in _mapping(pod, "spec").items() if name not in _DROPPED_FIELDS}
    spec = _mapping(given, "spec")
    is_own = not spec.get("containers")
    if is_own:
        affinity = narrow_affinity(_mapping(own, "affinity"), _mapping(spec, "affinity"))
        spec = {**own, **spec, **({"affinity": affinity} if affinity else {})}
    node = _mapping(pod, "spec").get("nodeName") or ""
    template = {
        **given,
        "metadata": {**of_pod, **_mapping(given, "metadata")},
        "spec": {**spec, "affinity": exclude_node(node, _mapping(spec, "affinity"))} if node else dict(spec),
    }
    return without_bulk(template) if is_own else template


def without_bulk(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template; if it is large, without long annotations, volumes and most of the containers' fields.

    What is left out decides about no node, and API servers refuse large Reservations. Most pods are small, and their
    templates stay complete, as Koordinator's are. A field of another type than in a pod stays: the Reservation fails
    with a reason that names the field.
    """
    if len(msgspec.json.encode(template)) <= TEMPLATE_SIZE_MAX:
        return dict(template)
    metadata, spec = template["metadata"], template["spec"]
    annotations = metadata.get("annotations") or {}
    if isinstance(annotations, Mapping):
        annotations = {name: text for name, text in annotations.items() if len(str(text)) <= ANNOTATION_LENGTH_MAX}
    containers = {
        name: [_without_details(container) for container in spec[name]]
        for name in _CONTAINER_LISTS
        if isinstance(spec.get(name), list)
    }
    kept = {name: value for name, value in spec.items() if name != "volumes"}
    return {**template, "metadata": {**metadata, "annotations": annotations}, "spec": {**kept, **containers}}


def _without_details(container: object) -> object:
    """Return the fields of a container that decide what a node must have."""
    if not isinstance(container, Mapping):
        return container
    return {field: container[field] for field in _CONTAINER_FIELDS if field in container}


def _retained(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return labels or annotations that describe the replacement, too."""
    return {
        name: value
        for name, value in given.items()
        if name not in _DROPPED_ANNOTATIONS and not name.startswith(_OWN_PREFIX)
    }


def requires_term(term: Mapping[str, Any]) -> dict[str, Any]:
    """Return the affinity of a pod that requires one term of a node selector."""
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [dict(term)]}}}


def narrow_affinity(affinity: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Return an affinity that requires what both require of nodes; the rest of ``further`` takes precedence.

    The terms of a node selector are alternatives, so each term of one is joined with each of the other.
    """
    terms, more = _terms(affinity), _terms(further)
    joined = [_join_terms(term, other) for term in terms for other in more] if terms and more else [*terms, *more]
    of_nodes = {**_mapping(affinity, "nodeAffinity"), **_mapping(further, "nodeAffinity")}
    required = {_REQUIRED: {"nodeSelectorTerms": joined}} if joined else {}
    return {**affinity, **further, **({"nodeAffinity": {**of_nodes, **required}} if of_nodes else {})}


def _terms(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    terms = _mapping(_mapping(affinity, "nodeAffinity"), _REQUIRED).get("nodeSelectorTerms")
    return [term for term in terms if isinstance(term, Mapping)] if isinstance(terms, list) else []


def _join_terms(term: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    joined = {name: _join_requirements(term.get(name), other.get(name)) for name in _TERM_FIELDS}
    return {name: requirements for name, requirements in joined.items() if requirements}


def _join_requirements(given: object, further: object) -> object:
    """Return both lists of requirements as one; what is no list stays as it is, and the Reservation is refused."""
    if malformed := next((part for part in (given, further) if part and not isinstance(part, list)), None):
        return malformed
    return [*(given if isinstance(given, list) else ()), *(further if isinstance(further, list) else ())]


def exclude_node(node: str, affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an affinity that excludes a node as well, in each of its required node selector terms."""
    of_nodes = _mapping(affinity, "nodeAffinity")
    terms = _mapping(of_nodes, _REQUIRED).get("nodeSelectorTerms")
    other = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    required = [
        {**term, "matchFields": _join_requirements(term.get("matchFields"), [other])}
        if isinstance(term, Mapping)
        else term
        for term in (terms if isinstance(terms, list) and terms else [{}])
    ]
    return {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": required}}}


def is_created_by(job: PodMigrationJob, reservation: Reservation) -> bool:
    """Return whether a Reservation is the one that a job created, not one that a user supplied."""
    return bool(job.metadata.uid) and creator_of(reservation) == job.metadata.uid


def reference_to(reservation: Reservation) -> dict[str, str]:
    """Return the reference of a job to its Reservation."""
    return {
        "apiVersion": reservation_model.API_VERSION,
        "kind": reservation_model.KIND,
        "name": reservation.metadata.name,
        "uid": reservation.metadata.uid,
    }


def _mapping(given: object, field: str) -> Mapping[str, Any]:
    """Return a field that has to be an object; empty if it is absent or of another type."""
    content = given.get(field) if isinstance(given, Mapping) else None
    return content if isinstance(content, Mapping) else {}
