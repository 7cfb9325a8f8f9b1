"""Reading of pods that no API server has validated: fields of a wrong type count as absent, since it rejects them."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from dra.engine.translation.requests import ContainerPath
from dra.model import quantities
from dra.model.meta import Struct

CONTAINER_FIELDS: Final = ("containers", "initContainers")

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a kubelet's copy of a static pod."""

_MAX_INTEGER: Final = 2**63


class ContainerFields(Struct, frozen=True):
    """The fields of a container that ask for resources."""

    at: ContainerPath
    name: str
    requests: Mapping[str, Any]
    limits: Mapping[str, Any]
    is_sidecar: bool
    """Whether an init container goes on beside the others."""

    @property
    def path(self) -> str:
        """The path of the container's resources."""
        field, index = self.at
        return f"spec.{field}[{index}].resources"

    @property
    def is_initial(self) -> bool:
        """Whether the container ends before the containers of the pod start."""
        return self.at[0] == "initContainers" and not self.is_sidecar

    def requested(self, name: str) -> Any:  # noqa: ANN401 - a quantity in any form
        """Return a request; the API server takes the limit where there is no request."""
        return self.requests.get(name, self.limits.get(name))

    def cpu_request(self) -> Any:  # noqa: ANN401 - a quantity in any form
        """Return the request for CPUs; 0 if there is none."""
        return self.requested("cpu") or 0

    def cpu_limit(self) -> Any:  # noqa: ANN401 - a quantity in any form
        """Return the limit for CPUs; 0 if there is none."""
        return self.limits.get("cpu") or 0


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one in place of any other value."""
    return value if isinstance(value, Mapping) else {}


def labels(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a pod."""
    return _texts(mapping(pod.get("metadata")).get("labels"))


def annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of a pod."""
    return _texts(mapping(pod.get("metadata")).get("annotations"))


def is_mirror(pod: Mapping[str, Any]) -> bool:
    """Report whether a pod is a kubelet's copy of a static pod, which can have no claims."""
    return MIRROR in annotations(pod)


def containers(pod: Mapping[str, Any]) -> Iterator[ContainerFields]:
    """Yield the containers of a pod, then its init containers."""
    spec = mapping(pod.get("spec"))
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(items(spec.get(field))):
            if not isinstance(container, Mapping):
                continue
            resources = mapping(container.get("resources"))
            yield ContainerFields(
                at=(field, index),
                name=str(container.get("name", "")),
                requests=mapping(resources.get("requests")),
                limits=mapping(resources.get("limits")),
                is_sidecar=field == "initContainers" and container.get("restartPolicy") == "Always",
            )


def pod_amounts(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the requests or limits of the whole pod (``spec.resources``)."""
    return mapping(mapping(mapping(pod.get("spec")).get("resources")).get(kind))


def items(value: object) -> list[Any]:
    """Return a list as it is, and an empty one in place of any other value."""
    return value if isinstance(value, list) else []


def claim_names(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the entries in ``spec.resourceClaims``."""
    return frozenset(
        str(mapping(entry).get("name", "")) for entry in items(mapping(pod.get("spec")).get("resourceClaims"))
    )


def amount(value: object) -> Fraction | None:
    """Return the exact amount of a quantity; None if the value is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return quantities.parse(repr(value) if isinstance(value, float) else value)
    except quantities.MalformedQuantityError:
        return None


def integer(value: object) -> int | None:
    """Return the amount of a quantity that is a whole number of 64 bits (CEL's ``isInteger``); None otherwise."""
    parsed = amount(value)
    whole = parsed is not None and parsed.denominator == 1 and -_MAX_INTEGER <= parsed < _MAX_INTEGER
    return int(parsed) if parsed is not None and whole else None


def quantity_text(value: object) -> str:
    """Return a quantity as the API server writes it."""
    return quantities.reserialize(repr(value) if isinstance(value, float) else str(value))


def _texts(value: object) -> dict[str, str]:
    return {name: text for name, text in mapping(value).items() if isinstance(text, str)}
