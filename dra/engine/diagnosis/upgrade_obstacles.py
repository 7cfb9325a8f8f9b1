"""The parts of stored objects that Kubernetes 1.38 refuses, found before an upgrade.

Stored objects stay readable, and an unchanged value passes on an update. But a driver that changes one device has the
whole ResourceSlice checked anew, and a stored negative amount makes kube-scheduler place no pod with claims at all.
Source: pkg/apis/resource/validation and plugins/dynamicresources of 1.38.0-beta.0.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from dra.engine.devices.semantic_versions import numeric_identifiers
from dra.model import quantities
from dra.model.quantities import MalformedQuantityError

Content = Mapping[str, Any]
"""An object as the API server returned it."""

CAPACITY_REQUESTS_MAX: Final = 32
"""Upstream's MaxCapacityRequirements, since 1.38."""

VERSION_DIGITS_MAX: Final = 18
"""Digits of a number in a version attribute, since 1.38."""

_REMOVED_VERSION: Final = "resource.k8s.io/v1beta1"


class UpgradeObstacle(NamedTuple):
    """One thing that Kubernetes 1.38 takes otherwise."""

    subject: str
    """The object, as texts name it."""

    what: str
    """The fact, and its consequence."""

    stops_scheduling: bool = False
    """Whether kube-scheduler 1.38 places no pod with claims while this is so."""


def obstacles_of_claim(claim: Content) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of a ResourceClaim, in its requests and in its allocation."""
    subject = f"claim {_name(claim)}"
    allocation = claim.get("status", {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results") or ():
        for name in _negative(result.get("consumedCapacity")):
            yield UpgradeObstacle(
                subject,
                f"its allocation consumes a negative amount of {name}: kube-scheduler 1.38 places no pod with claims",
                stops_scheduling=True,
            )
    yield from _obstacles_of_requests(subject, claim.get("spec", {}))


def obstacles_of_template(template: Content) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of the claims that are made from a ResourceClaimTemplate."""
    yield from _obstacles_of_requests(f"template {_name(template)}", template.get("spec", {}).get("spec", {}))


def obstacles_of_slice(resource_slice: Content) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of a ResourceSlice once its driver changes any device of it, and who writes v1beta1."""
    spec = resource_slice.get("spec", {})
    subject = f"driver {spec.get('driver', '')}, ResourceSlice {_name(resource_slice)}"
    for device in spec.get("devices") or ():
        for problem in _problems_of_device(device):
            yield UpgradeObstacle(subject, f"device {device.get('name', '')}: {problem}")
    for field in resource_slice.get("metadata", {}).get("managedFields") or ():
        if field.get("apiVersion") == _REMOVED_VERSION:
            yield UpgradeObstacle(
                f"driver {spec.get('driver', '')}",
                f"{field.get('manager', '')} writes {_REMOVED_VERSION}, which 1.38 drops",
            )


def _obstacles_of_requests(subject: str, spec: Content) -> Iterator[UpgradeObstacle]:
    for request in spec.get("devices", {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            amounts = ((asked or {}).get("capacity") or {}).get("requests") or {}
            where = f"request {request.get('name', '')}"
            for name in _negative(amounts):
                yield UpgradeObstacle(subject, f"{where} asks for a negative amount of {name}")
            for name in _doubly_qualified(amounts):
                yield UpgradeObstacle(subject, f"{where} names capacity {name}, with more than one slash")
            if len(amounts) > CAPACITY_REQUESTS_MAX:
                text = f"{where} names {len(amounts)} capacities, and 1.38 allows {CAPACITY_REQUESTS_MAX}"
                yield UpgradeObstacle(subject, text)


def _problems_of_device(device: Content) -> Iterator[str]:
    attributes = device.get("attributes") or {}
    for name in _doubly_qualified([*attributes, *(device.get("capacity") or {})]):
        yield f"the name {name} has more than one slash"
    for name, attribute in attributes.items():
        versions = [attribute.get("version", ""), *(attribute.get("versions") or ())]
        numbers = (number for version in versions for number in numeric_identifiers(str(version)))
        if any(len(number) > VERSION_DIGITS_MAX for number in numbers):
            yield f"a version in attribute {name} has a number of more than 18 digits"
    selector = device.get("nodeSelector")
    if selector is not None and len(selector.get("nodeSelectorTerms") or ()) != 1:
        yield "its nodeSelector has not exactly one term"


def _negative(amounts: Mapping[str, Any] | None) -> Iterator[str]:
    for name, amount in (amounts or {}).items():
        try:
            if quantities.parse(amount) < 0:
                yield name
        except MalformedQuantityError:
            continue


def _doubly_qualified(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.count("/") > 1)


def _name(content: Content) -> str:
    meta = content.get("metadata", {})
    return "/".join(part for part in (meta.get("namespace", ""), meta.get("name", "")) if part)
