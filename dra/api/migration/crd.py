"""The CustomResourceDefinition of PodMigrationJobs, generated from the one description of their fields.

Manifests for Koordinator pass as they are: an empty `mode` is the configured default. Refused are errors that could
only be reported once the job runs: a pod without a namespace, a negative time to live, a template that reserves
nothing.

What a job has begun must not change under it, so the reference to the pod is fixed: the uid, too, once it is known.
"""

from collections.abc import Mapping
from typing import Final

from dra.api.migration.model import (
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAME,
    VERSION,
    MigrationMode,
    MigrationPhase,
    PodMigrationJob,
)
from dra.api.reservations import crd as reservation_crd
from dra.api.reservations.model import ReservationSpec
from dra.api.structural_schema import (
    DURATION_PATTERN,
    PRESERVE_UNKNOWN_FIELDS,
    VALIDATIONS,
    SchemaNode,
    cluster_scoped_definition,
    described_schema,
    openapi_schema,
    printer_column,
    validation_rule,
)

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME: Final[SchemaNode] = {"minLength": 1, "maxLength": 253, "pattern": rf"^{_LABEL}([.]{_LABEL})*$"}
_NAMESPACE: Final[SchemaNode] = {"minLength": 1, "maxLength": 63, "pattern": f"^{_LABEL}$"}
_FREE_FORM: Final[SchemaNode] = {"type": "object", PRESERVE_UNKNOWN_FIELDS: True}


def _reservation_template() -> SchemaNode:
    """Return the schema of a Reservation to create: nothing is required, since the pod fills the gaps."""
    overlays = {
        path.removeprefix("spec."): overlay
        for path, overlay in reservation_crd.SCHEMA_OVERLAYS.items()
        if path.startswith("spec.")
    }
    template = overlays["template"]
    rules = [
        validation_rule(
            "!has(self.spec) || !has(self.spec.containers) || size(self.spec.containers) > 0",
            "reserves nothing: give containers with requests, or leave these out to reserve what the pod requests",
        )
    ]
    spec = described_schema(ReservationSpec, overlays={**overlays, "template": {**template, VALIDATIONS: rules}})
    del spec["required"], spec["properties"]["owners"]["minItems"]
    return {"properties": {"metadata": _FREE_FORM, "spec": spec}, PRESERVE_UNKNOWN_FIELDS: None}


_SCHEMA_OVERLAYS: Final[Mapping[str, SchemaNode]] = {
    "spec": {
        "required": ["podRef"],
        VALIDATIONS: [
            # The descheduler adds the reference to a job with a template: both may be there, but not be written so.
            validation_rule(
                "oldSelf.hasValue() || !has(self.reservationOptions) || "
                "!has(self.reservationOptions.reservationRef) || !has(self.reservationOptions.template)",
                "give reservationRef for a Reservation that exists or template for one to create, not both",
            )
            | {"optionalOldSelf": True, "fieldPath": ".reservationOptions"},
            validation_rule(
                "oldSelf.hasValue() || !has(self.mode) || self.mode != 'EvictDirectly' || "
                "!has(self.reservationOptions) || "
                "(!has(self.reservationOptions.reservationRef) && !has(self.reservationOptions.template))",
                "mode EvictDirectly reserves nothing; leave reservationOptions out, or use mode ReservationFirst",
            )
            | {"optionalOldSelf": True, "fieldPath": ".mode"},
            validation_rule(
                "!has(self.mode) || self.mode == '' || !has(oldSelf.mode) || oldSelf.mode in ['', self.mode]",
                "cannot change; create another job for another mode",
            )
            | {"fieldPath": ".mode"},
        ],
    },
    "spec.mode": {"enum": ["", *(mode.value for mode in MigrationMode)]},
    "spec.ttl": {
        VALIDATIONS: [
            validation_rule(
                f"self.matches('{DURATION_PATTERN}')",
                "must be a duration of 0s or more, for example 5m or 1h30m; 0s means unlimited",
            )
        ]
    },
    "spec.podRef": {
        "required": ["namespace", "name"],
        VALIDATIONS: [
            validation_rule(
                "!has(self.kind) || self.kind in ['', 'Pod']",
                "is not a pod; name a pod, and leave kind out or write Pod",
            ),
            validation_rule(
                "self.name == oldSelf.name && self.__namespace__ == oldSelf.__namespace__",
                "name and namespace cannot change; create another job for another pod",
            ),
            validation_rule(
                "!has(oldSelf.uid) || oldSelf.uid == '' || (has(self.uid) && self.uid == oldSelf.uid)",
                "uid cannot change; create another job for another pod",
            ),
        ],
    },
    "spec.podRef.name": _OBJECT_NAME,
    "spec.podRef.namespace": _NAMESPACE,
    "spec.reservationOptions.reservationRef": {
        "required": ["name"],
        VALIDATIONS: [
            validation_rule(
                "!has(self.kind) || self.kind in ['', 'Reservation']",
                "is not a Reservation; name a Reservation, and leave kind out or write Reservation",
            )
        ],
    },
    "spec.reservationOptions.reservationRef.name": _OBJECT_NAME,
    "spec.reservationOptions.template": _reservation_template(),
    "spec.deleteOptions": {
        PRESERVE_UNKNOWN_FIELDS: None,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "gracePeriodSeconds": {"type": "integer", "format": "int64", "minimum": 0},
            "propagationPolicy": {"type": "string", "enum": ["Orphan", "Background", "Foreground"]},
            "orphanDependents": {"type": "boolean"},
            "ignoreStoreReadErrorWithClusterBreakingPotential": {"type": "boolean"},
            "preconditions": {
                "type": "object",
                "properties": {"uid": {"type": "string"}, "resourceVersion": {"type": "string"}},
            },
            "dryRun": {"type": "array", "items": {"type": "string"}},
        },
        VALIDATIONS: [
            validation_rule(
                "!has(self.dryRun) || size(self.dryRun) == 0", "dryRun evicts nothing; set paused to hold the job back"
            )
        ],
    },
    "status.phase": {"enum": ["", *(phase.value for phase in MigrationPhase)]},
}
"""Additions to the schema of a path: admission rejects more than the parser, which must read what exists already."""


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        short_names=[SHORT_NAME],
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": openapi_schema(PodMigrationJob, defaults={}, overlays=_SCHEMA_OVERLAYS)},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                printer_column("Phase", ".status.phase", "phase of the migration, such as Running or Succeeded"),
                printer_column("Status", ".status.status", "current step of the migration"),
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
                printer_column("Node", ".status.nodeName", "name of the node that holds the reserved capacity"),
                printer_column(
                    "Reservation", ".spec.reservationOptions.reservationRef.name", "name of the Reservation of the job"
                ),
                printer_column("PodNamespace", ".spec.podRef.namespace", "the namespace of the pod"),
                printer_column("Pod", ".spec.podRef.name", "the pod to migrate"),
                printer_column("NewPod", ".status.podRef.name", "the pod that uses the Reservation"),
                printer_column("TTL", ".spec.ttl", "time after which the migration fails"),
            ],
        },
    )
