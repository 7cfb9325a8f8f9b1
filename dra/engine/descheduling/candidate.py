"""The pod that asks where else it would fit, and what pods of its kind ask of a node.

Not the pod itself runs elsewhere but its replacement, which has another uid and, unless its StatefulSet gives it the
same, another name. So all pods of a workload ask alike, and what is found out for one of them holds for all.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from dra.api.reservations.well_known import (
    ANNOTATION_EXACT_MATCH,
    ANNOTATION_RESERVATION_AFFINITY,
    MalformedAnnotationError,
)
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.kube_scheduler import host_ports
from dra.engine.reservations import pod_info
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Uid
from dra.model.quantities import Amounts
from dra.model.scheduling import Toleration

_KEEPS_NAMES: Final = "StatefulSet"
_READ_ANNOTATIONS: Final = (ANNOTATION_RESERVATION_AFFINITY, ANNOTATION_EXACT_MATCH)


@dataclass(slots=True, eq=False)
class Demand:
    """The needs of pods of one kind, as far as nodes are concerned; equal pods share one object."""

    example: DeschedulingPod
    """One of the pods."""
    info: PodInfo
    """The replacement of such a pod, as reservations see it."""
    tolerations: tuple[Toleration, ...]
    claim_names: tuple[str, ...]
    """The PersistentVolumeClaims that each of the pods uses, in the namespace of the pods."""
    problem: str = ""
    """Why the pod fits nowhere: an annotation that cannot be parsed, or more than can be looked at."""


class Candidate(NamedTuple):
    """A pod that asks where it would fit."""

    demand: Demand
    uid: Uid
    node: str
    """The node that the pod counts on; empty if it counts on none."""


class Demands:
    """The demands of the pods that have asked."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, Demand] = {}
        self._by_pod: dict[Uid, Demand] = {}

    def of(self, pod: DeschedulingPod, amounts: Amounts) -> Demand:
        """Return the demand of a pod that takes these amounts."""
        known = self._by_pod.get(pod.metadata.uid)
        if known is None:
            key = _key(pod, amounts)
            known = self._by_key.get(key)
            if known is None:
                known = self._by_key[key] = _demand(pod, amounts)
            self._by_pod[pod.metadata.uid] = known
        return known


def replaced_name(pod: DeschedulingPod) -> str:
    """Return the name of the replacement of a pod; empty if it is not known before."""
    owner = pod.metadata.controller
    return pod.metadata.name if owner is None or owner.kind == _KEEPS_NAMES else ""


def _key(pod: DeschedulingPod, amounts: Amounts) -> bytes:
    """Return all that a filter reads of a pod."""
    meta, spec = pod.metadata, pod.spec
    return msgspec.json.encode(
        (
            meta.namespace,
            replaced_name(pod),
            meta.labels,
            [meta.annotation(annotation) for annotation in _READ_ANNOTATIONS],
            meta.owner_references,
            amounts,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.resource_claims,
            spec.scheduling_group,
            pod.status.resource_claim_statuses if spec.resource_claims else None,
            _claim_names(pod),
            [[container.ports for container in group] for group in (spec.containers, spec.init_containers) if group],
        )
    )


def _demand(pod: DeschedulingPod, amounts: Amounts) -> Demand:
    problem = ""
    try:
        info = PodInfo.from_metadata(
            pod.metadata,
            amounts=amounts,
            host_ports=host_ports.pod_host_ports(pod),
            claims=pod_info.pod_claims(pod),
            priority=pod.spec.priority,
        )
    except MalformedAnnotationError as error:
        problem = str(error)
        info = PodInfo(key=pod.metadata.key, uid=Uid(""), amounts=amounts)
    return Demand(
        example=pod,
        info=msgspec.structs.replace(
            info, key=(pod.metadata.namespace, replaced_name(pod)), uid=Uid(""), allocated_reservation=Uid("")
        ),
        tolerations=tuple(pod.spec.tolerations or ()),
        claim_names=_claim_names(pod),
        problem=problem,
    )


def _claim_names(pod: DeschedulingPod) -> tuple[str, ...]:
    """Return the PersistentVolumeClaims that a pod names; those of ephemeral volumes end with the pod."""
    volumes = pod.spec.volumes
    if not volumes:
        return ()
    named = (volume.persistent_volume_claim.get("claimName") for volume in volumes if volume.persistent_volume_claim)
    return tuple(name for name in named if isinstance(name, str))
