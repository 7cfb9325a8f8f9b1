"""Redacts a snapshot for sharing: only the data that rules compare remains.

Redaction is by construction: a snapshot consists of the engine's own structs, which have no field for what containers
run, or for their environment. Remaining free text is removed here: annotations and labels that concern only their
owner, sources of volumes, and parameters that claims carry for drivers as plain data. A Reservation's template keeps
only its placement and its amounts.

Where a rule only compares two texts for equality (a held claim replaces the claim that a template would make), each
text is replaced by its number. Of a pod's labels, those that a selector names remain, with the values that the
selector names.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dra.api.colocation.well_known import ANNOTATION_COLOCATION_STRATEGY, KEY_COLOCATION, KEY_QOS, KEY_THRESHOLD
from dra.api.migration.model import MalformedPodMigrationJobError, parse_pod_migration_job
from dra.api.migration.well_known import (
    ANNOTATION_APPROVAL,
    ANNOTATION_EVICT_REASON,
    ANNOTATION_EVICT_TRIGGER,
    ANNOTATION_JOB_CREATED_BY,
    ANNOTATION_PROFILE,
    ANNOTATION_ROUND,
    CREATED_BY,
)
from dra.api.object_fields import to_document
from dra.api.reservations import well_known
from dra.api.reservations.model import MalformedReservationError, ReservationOwner
from dra.api.reservations.model import parse_reservation as as_reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.cli.kubectl.snapshots import descheduling_redaction
from dra.cli.kubectl.snapshots.descheduling_redaction import DeschedulingRedactor
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.reservations.pod_info import PodInfo
from dra.model.claims import ResourceClaim
from dra.model.diagnosed_pods import PodEvent
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.node_pods import ConfigMap
from dra.model.scheduling import SchedulerPod
from dra.model.templates import ResourceClaimTemplate

KEPT_ANNOTATION_PREFIXES: Final = ("reserve.dra/", "resource.kubernetes.io/", "scheduling.koordinator.sh/")
"""Prefixes of annotations that rules read."""

KEPT_LABEL_PREFIXES: Final = (
    *KEPT_ANNOTATION_PREFIXES,
    "pod.koordinator.sh/",
    "koordinator.sh/",
    well_known.ANNOTATION_NODE_RESERVATION,
    ANNOTATION_COLOCATION_STRATEGY,
)
"""Prefixes of labels and annotations that concern reservations."""

MIGRATION_ANNOTATION_PREFIXES: Final = (
    "descheduler.koordinator.sh/passed-arbitration",
    ANNOTATION_JOB_CREATED_BY,
    ANNOTATION_APPROVAL,
    ANNOTATION_EVICT_TRIGGER,
    ANNOTATION_PROFILE,
    ANNOTATION_ROUND,
)
"""Annotations of PodMigrationJobs that rules read. The reason of an eviction is kept as well, if the descheduler wrote
the job; that of a person is free text."""

MESSAGE_LENGTH_MAX: Final = 500
"""Maximum number of characters kept of a condition's message: the scheduler's messages are shorter."""

REDACTED: Final = "redacted"
"""Replacement for the value of a label whose value no selector names."""

_PLACEMENT_FIELDS: Final = (
    "nodeName",
    "nodeSelector",
    "tolerations",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "resourceClaims",
    "schedulerName",
    "overhead",
    "resources",
)
"""Fields of a Reservation's template that are kept unchanged: placement and amounts."""

Json = dict[str, Any]
SelectorValues = dict[str, set[str]]
"""Label → the values that selectors name."""


class SnapshotRedactor:
    """Redacts one snapshot; claims and pods one at a time, because a large cluster has many."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Collect the texts that remain: whatever selectors of the snapshot name."""
        self._found = snapshot
        self._selected: SelectorValues = {}
        self._of_reservations: SelectorValues = {}
        for key, value in _pod_labels_in_selectors(snapshot):
            self._selected.setdefault(key, set()).add(value)
        for key, value in _reservation_labels_in_selectors(snapshot):
            self._of_reservations.setdefault(key, set()).add(value)
        self._descheduling = DeschedulingRedactor(snapshot) if isinstance(snapshot, DeschedulingSnapshot) else None
        self._numbers = {
            text: f"redacted-{number}" for number, text in enumerate(sorted(set(_compared_texts(snapshot))))
        }

    def claims(self) -> Iterator[ResourceClaim]:
        """Yield the claims without confidential data."""
        return map(self._claim, self._found.claims)

    def pods(self) -> Iterator[SchedulerPod]:
        """Yield the pods without confidential data."""
        return map(self._pod, self._found.pods)

    def rest(self) -> Snapshot:
        """Return the snapshot without confidential data, and without claims and pods."""
        snapshot = self._rest()
        if self._descheduling is None or not isinstance(snapshot, DeschedulingSnapshot):
            return snapshot
        return msgspec.structs.replace(
            snapshot,
            descheduling=None if snapshot.descheduling is None else self._descheduling.facts(snapshot.descheduling),
        )

    def _rest(self) -> Snapshot:
        snapshot = self._found
        return msgspec.structs.replace(
            snapshot,
            claims=(),
            pods=(),
            start_failures=tuple(map(_redact_event, snapshot.start_failures)),
            nodes=tuple(_redact_object(node, labels=node.metadata.labels) for node in snapshot.nodes),
            slices=tuple(map(_redact_object, snapshot.slices)),
            classes=tuple(
                msgspec.structs.replace(
                    _redact_object(device_class),
                    spec=msgspec.structs.replace(device_class.spec, config=self._config(device_class.spec.config)),
                )
                for device_class in snapshot.classes
            ),
            rules=tuple(map(_redact_object, snapshot.rules)),
            templates=tuple(map(self._template, snapshot.templates)),
            priorities=tuple(map(_redact_object, snapshot.priorities)),
            budgets=tuple(map(_redact_object, snapshot.budgets)),
            runtime_classes=None
            if snapshot.runtime_classes is None
            else tuple(map(_redact_object, snapshot.runtime_classes)),
            reservations=None
            if snapshot.reservations is None
            else tuple(map(self._reservation, snapshot.reservations)),
            migrations=None if snapshot.migrations is None else tuple(map(_redact_migration, snapshot.migrations)),
            node_metrics=None if snapshot.node_metrics is None else tuple(map(_redact_object, snapshot.node_metrics)),
            colocation_config=_redact_config(snapshot.colocation_config),
        )

    def _claim(self, claim: ResourceClaim) -> ResourceClaim:
        allocation = claim.status.allocation
        if allocation is not None and allocation.devices.config:
            results = msgspec.structs.replace(allocation.devices, config=self._config(allocation.devices.config))
            allocation = msgspec.structs.replace(allocation, devices=results)
        meta = _redact_metadata(claim.metadata, labels=self._numbered(claim.metadata.labels))
        annotations = {**self._numbered(claim.metadata.annotations), **(meta.annotations or {})}
        return msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(meta, annotations=annotations or None),
            spec=msgspec.structs.replace(claim.spec, devices=self._devices(claim.spec.devices)),
            status=msgspec.structs.replace(claim.status, allocation=allocation),
        )

    def _template(self, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
        spec = template.spec
        given = spec.metadata.annotations or {}
        annotations = {
            **self._numbered(given),
            **{key: text for key, text in given.items() if key.startswith(KEPT_ANNOTATION_PREFIXES)},
        }
        devices = {"devices": self._devices(spec.spec["devices"])} if spec.spec.get("devices") else {}
        metadata = msgspec.structs.replace(
            spec.metadata, labels=self._numbered(spec.metadata.labels) or None, annotations=annotations or None
        )
        return ResourceClaimTemplate(
            metadata=_redact_metadata(template.metadata),
            spec=msgspec.structs.replace(spec, metadata=metadata, spec=devices),
        )

    def _devices(self, devices: Json | None) -> Json | None:
        if devices is None:
            return None
        kept = {key: value for key, value in devices.items() if key in {"requests", "constraints"}}
        return kept | ({"config": self._config(devices["config"])} if devices.get("config") else {})

    def _config(self, config: Iterable[Mapping[str, Any]] | None) -> list[Json] | None:
        """Return configuration without its parameters: the driver may be known, the content not."""
        if config is None:
            return None
        return [
            {key: self._opaque(value) if key == "opaque" else value for key, value in entry.items()}
            for entry in config
            if all(key in {"opaque", "requests", "source"} for key in entry)
        ]

    def _opaque(self, value: Mapping[str, Any]) -> Json:
        opaque = {"driver": value.get("driver", "")}
        number = self._numbers.get(_canonical_json(value.get("parameters")))
        return opaque | ({"parameters": {REDACTED: number}} if number else {})

    def _numbered(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """Return the numbers of labels and annotations, where a template has the same."""
        numbers = (self._numbers.get(_pair_text(key, value)) for key, value in sorted((given or {}).items()))
        return {number: "" for number in numbers if number}

    def _pod(self, pod: SchedulerPod) -> SchedulerPod:
        if self._descheduling is not None and isinstance(pod, DeschedulingPod):
            pod = self._descheduling.pod(pod)
        else:
            pod = _redact_volumes(pod)
        conditions = [
            msgspec.structs.replace(
                condition, message=condition.message[:MESSAGE_LENGTH_MAX] if condition.type == "PodScheduled" else ""
            )
            for condition in pod.status.conditions or ()
        ]
        return msgspec.structs.replace(
            pod,
            metadata=_redact_metadata(
                pod.metadata, labels=_redact_labels(pod.metadata.labels, self._selected), prefixes=KEPT_LABEL_PREFIXES
            ),
            status=msgspec.structs.replace(
                pod.status, conditions=conditions or None, message=pod.status.message[:MESSAGE_LENGTH_MAX]
            ),
        )

    def _reservation(self, reservation: UnstructuredObject) -> UnstructuredObject:
        metadata = _redact_metadata(
            reservation.metadata,
            labels=_redact_labels(reservation.metadata.labels, self._of_reservations),
            prefixes=KEPT_LABEL_PREFIXES,
        )
        head: Json = {key: reservation.content[key] for key in ("apiVersion", "kind") if key in reservation.content}
        content = {**head, "metadata": msgspec.to_builtins(metadata)}
        try:
            as_reservation(reservation.content)
        except MalformedReservationError:  # the content may be anything, so none of it is kept
            return UnstructuredObject(metadata=metadata, content=content)
        spec = {
            **reservation.content["spec"],
            "template": _redact_pod_template(reservation.content["spec"].get("template") or {}),
        }
        status = reservation.content.get("status") or {}
        known = ("phase", "nodeName", "allocatable", "allocated", "currentOwners", "conditions")
        content |= {"spec": spec, "status": {key: status[key] for key in known if key in status}}
        return UnstructuredObject(metadata=metadata, content=content)


def _redact_volumes(pod: SchedulerPod) -> SchedulerPod:
    """Return a pod whose volumes tell only their kinds."""
    volumes = [
        msgspec.structs.replace(
            volume,
            persistent_volume_claim={REDACTED: True} if volume.persistent_volume_claim else None,
            ephemeral={REDACTED: True} if volume.ephemeral else None,
        )
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim or volume.ephemeral
    ]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=volumes or None))


def _redact_event(event: PodEvent) -> PodEvent:
    """Return an Event with its text only if that is about devices; others may name images and paths."""
    about_devices = event.reason == "FailedPrepareDynamicResources"
    metadata = _redact_metadata(event.metadata)
    return msgspec.structs.replace(event, metadata=metadata, note=event.note if about_devices else REDACTED)


def _redact_config(config_map: ConfigMap | None) -> ConfigMap | None:
    """Return the ConfigMap of colocation with the keys that are read."""
    if config_map is None:
        return None
    data = {
        key: text for key, text in (config_map.data or {}).items() if key in {KEY_COLOCATION, KEY_THRESHOLD, KEY_QOS}
    }
    return ConfigMap(metadata=_redact_metadata(config_map.metadata), data=data)


def _redact_migration(migration: UnstructuredObject) -> UnstructuredObject:
    """Return a PodMigrationJob without the template of its Reservation and without its DeleteOptions."""
    by_descheduler = migration.metadata.annotation(ANNOTATION_JOB_CREATED_BY) == CREATED_BY
    prefixes = (*MIGRATION_ANNOTATION_PREFIXES, *((ANNOTATION_EVICT_REASON,) if by_descheduler else ()))
    metadata = _redact_metadata(migration.metadata, prefixes=prefixes)
    head: Json = {key: migration.content[key] for key in ("apiVersion", "kind") if key in migration.content}
    content = {**head, "metadata": msgspec.to_builtins(metadata)}
    try:
        job = parse_pod_migration_job(migration.content)
    except MalformedPodMigrationJobError:  # the content may be anything, so none of it is kept
        return UnstructuredObject(metadata=metadata, content=content)
    known = to_document(job)
    spec = {key: value for key, value in known["spec"].items() if key in {"paused", "ttl", "mode", "podRef"}}
    reference = (known["spec"].get("reservationOptions") or {}).get("reservationRef")
    if reference:
        spec["reservationOptions"] = {"reservationRef": reference}
    status = {
        key: value
        for key, value in (known.get("status") or {}).items()
        if key in {"phase", "status", "reason", "message", "nodeName", "podRef", "conditions"}
    }
    for part in (status, *status.get("conditions", ())):
        if "message" in part:
            part["message"] = part["message"][:MESSAGE_LENGTH_MAX]
    return UnstructuredObject(metadata=metadata, content=content | {"spec": spec, "status": status})


def _redact_metadata(
    meta: ObjectMeta, *, labels: Mapping[str, str] | None = None, prefixes: tuple[str, ...] = KEPT_ANNOTATION_PREFIXES
) -> ObjectMeta:
    kept = {key: value for key, value in (meta.annotations or {}).items() if key.startswith(prefixes)}
    return msgspec.structs.replace(meta, annotations=kept or None, labels=dict(labels) if labels else None)


def _redact_object(item: Any, *, labels: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - any of our structs
    return msgspec.structs.replace(
        item, metadata=_redact_metadata(item.metadata, labels=labels, prefixes=KEPT_LABEL_PREFIXES)
    )


def _redact_labels(labels: Mapping[str, str] | None, named: SelectorValues) -> dict[str, str]:
    """Return the labels that selectors name, with the values that selectors name; other values are redacted."""
    return {
        key: value if key.startswith(KEPT_LABEL_PREFIXES) or value in named[key] else REDACTED
        for key, value in (labels or {}).items()
        if key.startswith(KEPT_LABEL_PREFIXES) or key in named
    }


def _pod_labels_in_selectors(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the labels of pods, and their values, that selectors name."""
    for budget in snapshot.budgets:
        selector = budget.spec.selector
        if selector is not None:
            yield from (selector.match_labels or {}).items()
            yield from _requirement_values(selector.match_expressions or ())
    if isinstance(snapshot, DeschedulingSnapshot):
        yield from descheduling_redaction.pod_labels_in_selectors(snapshot)
    for owner in _reservation_owners(snapshot):
        if owner.label_selector is not None:
            yield from owner.label_selector.match_labels.items()
            yield from _requirement_values(owner.label_selector.match_expressions)


def _reservation_owners(snapshot: Snapshot) -> Iterator[ReservationOwner]:
    for reservation in snapshot.reservations or ():
        try:
            yield from as_reservation(reservation.content).spec.owners
        except MalformedReservationError:
            continue


def _reservation_labels_in_selectors(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the labels of reservations, and their values, that the affinities of pods name."""
    for pod in snapshot.pods:
        if pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_AFFINITY) is None:
            continue
        try:
            affinity = PodInfo.from_pod(pod).affinity
        except MalformedAnnotationError:
            continue
        if affinity is not None:
            yield from affinity.selector.items()
            for term in affinity.terms.node_selector_terms if affinity.terms is not None else ():
                yield from _requirement_values(term.match_expressions or ())


def _requirement_values(requirements: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for requirement in requirements:
        yield requirement.key, ""
        for value in requirement.values or ():
            yield requirement.key, value


def _compared_texts(snapshot: Snapshot) -> Iterator[str]:
    """Yield the texts that rules compare with one another, as whole texts only."""
    for template in snapshot.templates:
        metadata = template.spec.metadata
        for pairs in (metadata.labels, metadata.annotations):
            for key, value in (pairs or {}).items():
                yield _pair_text(key, value)
        yield from _opaque_parameters((template.spec.spec.get("devices") or {}).get("config"))
    for claim in snapshot.claims:
        yield from _opaque_parameters((claim.spec.devices or {}).get("config"))


def _opaque_parameters(config: Iterable[Mapping[str, Any]] | None) -> Iterator[str]:
    for entry in config or ():
        yield _canonical_json((entry.get("opaque") or {}).get("parameters"))


def _canonical_json(value: Any) -> str:  # noqa: ANN401 - anything
    return msgspec.json.encode(value, order="sorted").decode()


def _pair_text(key: str, value: str) -> str:
    return _canonical_json([key, value])


def _redact_pod_template(template: Mapping[str, Any]) -> Json:
    """Return the placement and the amounts of a Reservation's template."""
    given = template.get("spec")
    metadata = template.get("metadata")
    spec = given if isinstance(given, Mapping) else {}
    kept: Json = {key: spec[key] for key in _PLACEMENT_FIELDS if key in spec}
    affinity = spec.get("affinity")
    if isinstance(affinity, Mapping) and affinity.get("nodeAffinity"):
        kept["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    for name in ("containers", "initContainers"):
        if isinstance(spec.get(name), list):
            kept[name] = [_redact_container(container) for container in spec[name]]
    space = metadata.get("namespace") if isinstance(metadata, Mapping) else template.get("namespace")
    where: Json = {"metadata": {"namespace": space}} if space else {}
    return where | {"spec": kept}


def _redact_container(container: Any) -> Any:  # noqa: ANN401 - nobody has validated it
    if not isinstance(container, Mapping):
        return REDACTED
    resources = container.get("resources")
    kept = {key: container[key] for key in ("restartPolicy",) if key in container}
    if isinstance(resources, Mapping):
        kept["resources"] = {key: resources[key] for key in ("requests", "limits") if key in resources}
    return kept
