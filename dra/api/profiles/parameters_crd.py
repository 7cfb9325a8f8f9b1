"""The CustomResourceDefinition of ColocationProfileParameters.

The schema is what limits the account that writes the parameters: no keys of Kubernetes or of dra-reserve, no priority
classes of the system, and a size that keeps each pod's admission quick.
"""

from typing import Final

from dra.api.profiles.parameters import (
    GROUP,
    KIND,
    MAX_ENTRIES,
    MAX_KEY_LENGTH,
    MAX_PROFILES,
    MAX_REQUIREMENTS,
    MAX_VALUE_LENGTH,
    MAX_VALUES,
    PLURAL,
    VERSION,
    ColocationProfileParameters,
)
from dra.api.structural_schema import (
    VALIDATIONS,
    SchemaNode,
    cluster_scoped_definition,
    openapi_schema,
    printer_column,
    validation_rule,
)

RESERVED_KEY_PATTERN: Final = r"^([a-zA-Z0-9-]+[.])*(kubernetes[.]io|k8s[.]io|reserve[.]dra)/"
"""Keys of Kubernetes and of dra-reserve, by which components with more rights are directed."""
ADMITTED_PREFIXES: Final = ("app.kubernetes.io/", "cluster-autoscaler.kubernetes.io/")
"""Prefixes of Kubernetes that direct no component to give a pod more rights."""
SYSTEM_CLASS_PREFIX: Final = "system-"

KEY_PATTERN: Final = r"^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$"
LABEL_VALUE_PATTERN: Final = r"^([a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?)?$"
NAME_PATTERN: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"

_SET_KEY: Final[SchemaNode] = {
    "maxLength": MAX_KEY_LENGTH,
    "pattern": KEY_PATTERN,
    VALIDATIONS: [
        validation_rule(
            f"!self.matches('{RESERVED_KEY_PATTERN}') || "
            + " || ".join(f"self.startsWith('{prefix}')" for prefix in ADMITTED_PREFIXES),
            "is a key of Kubernetes or of dra-reserve, which no profile sets",
        )
    ],
}
_READ_KEY: Final[SchemaNode] = {"maxLength": MAX_KEY_LENGTH, "pattern": KEY_PATTERN}
_ENTRIES: Final[SchemaNode] = {"maxItems": MAX_ENTRIES}
_REQUIREMENTS: Final[SchemaNode] = {"maxItems": MAX_REQUIREMENTS}
_NAME: Final[SchemaNode] = {"maxLength": 253, "pattern": NAME_PATTERN}

_PROFILE: Final = "spec.profiles[]"
_OVERLAYS: Final[dict[str, SchemaNode]] = {
    "spec.profiles": {"maxItems": MAX_PROFILES},
    f"{_PROFILE}.name": {**_NAME, "minLength": 1},
    f"{_PROFILE}.schedulerName": _NAME,
    f"{_PROFILE}.priorityClassName": {
        **_NAME,
        VALIDATIONS: [
            validation_rule(
                f"!self.startsWith('{SYSTEM_CLASS_PREFIX}')", "is a class of the system, which no profile sets"
            )
        ],
    },
    f"{_PROFILE}.terminationGracePeriodSeconds": {"minimum": 0},
    **{
        path: overlay
        for field in ("namespaceRequirements", "podRequirements")
        for path, overlay in {
            f"{_PROFILE}.{field}": _REQUIREMENTS,
            f"{_PROFILE}.{field}[].key": _READ_KEY,
            f"{_PROFILE}.{field}[].values": {"maxItems": MAX_VALUES},
            f"{_PROFILE}.{field}[].values[]": {"maxLength": 63, "pattern": LABEL_VALUE_PATTERN},
        }.items()
    },
    **{
        path: overlay
        for field, value in (
            ("labels", {"maxLength": 63, "pattern": LABEL_VALUE_PATTERN}),
            ("annotations", {"maxLength": MAX_VALUE_LENGTH}),
        )
        for path, overlay in {
            f"{_PROFILE}.{field}": _ENTRIES,
            f"{_PROFILE}.{field}[].key": _SET_KEY,
            f"{_PROFILE}.{field}[].value": value,
        }.items()
    },
    **{
        path: overlay
        for field in ("labelCopies", "annotationCopies")
        for path, overlay in {
            f"{_PROFILE}.{field}": _ENTRIES,
            f"{_PROFILE}.{field}[].source": _READ_KEY,
            f"{_PROFILE}.{field}[].target": _SET_KEY,
        }.items()
    },
}


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    schema = openapi_schema(ColocationProfileParameters, defaults={}, overlays=_OVERLAYS)
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [
                printer_column("Profiles", ".spec.profiles[*].name", "the profiles in name order"),
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
            ],
        },
    )
