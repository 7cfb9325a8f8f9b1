"""Leaves out of a large pod template what decides about no node: an API server refuses large Reservations.

Most pods are small, and their templates stay complete, as Koordinator's are.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

TEMPLATE_SIZE_MAX: Final = 64 << 10
"""Maximum bytes of a complete template, a quarter of what a Reservation may have (`dra.cli.size_policies`)."""

ANNOTATION_LENGTH_MAX: Final = 1024
"""Maximum length of an annotation in a large template; those that schedulers read are shorter."""

_CONTAINER_LISTS: Final = ("containers", "initContainers")
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "ports", "restartPolicy")
"""Fields of a container that decide what a node must have; the image is required."""


def without_bulk(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template; if it is large, without long annotations, volumes and most of the containers' fields."""
    if len(msgspec.json.encode(template)) <= TEMPLATE_SIZE_MAX:
        return dict(template)
    metadata, spec = template["metadata"], template["spec"]
    annotations = metadata.get("annotations") or {}
    short = {name: text for name, text in annotations.items() if len(text) <= ANNOTATION_LENGTH_MAX}
    containers = {
        name: [{field: each[field] for field in _CONTAINER_FIELDS if field in each} for each in spec[name]]
        for name in _CONTAINER_LISTS
        if name in spec
    }
    kept = {name: value for name, value in spec.items() if name != "volumes"}
    return {**template, "metadata": {**metadata, "annotations": short}, "spec": {**kept, **containers}}
