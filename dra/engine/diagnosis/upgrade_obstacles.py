"""The parts of stored objects that Kubernetes 1.38 refuses, found before an upgrade.

Stored objects stay readable, and an unchanged value passes on an update. But a driver that changes one device has the
whole ResourceSlice checked anew, and a stored negative amount makes kube-scheduler place no pod with claims at all.
Source: pkg/apis/resource/validation and plugins/dynamicresources of 1.38.0-beta.0.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from dra.engine.claims.reasons import Subject, list_names
from dra.engine.devices.semantic_versions import numeric_identifiers
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, claim_problem, upgrade_problem
from dra.model import quantities
from dra.model.claims import ResourceClaim
from dra.model.quantities import MalformedQuantityError
from dra.model.releases import Release, nearest_release
from dra.model.slices import Device, ManagedResourceSlice, ResourceSlice
from dra.model.templates import ResourceClaimTemplate
from dra.model.workload_reservations import NO_UID

CAPACITY_REQUESTS_MAX: Final = 32
"""Upstream's MaxCapacityRequirements, since 1.38."""

VERSION_DIGITS_MAX: Final = 18
"""Digits of a number in a version attribute, since 1.38."""

_REMOVED_VERSION: Final = "resource.k8s.io/v1beta1"


class UpgradeObstacle(NamedTuple):
    """One thing that Kubernetes 1.38 takes otherwise."""

    subject: Subject
    """The object."""

    what: str
    """The fact, and its consequence."""

    stops_scheduling: bool = False
    """Whether kube-scheduler 1.38 places no pod with claims while this is so."""


def is_ahead(server: str) -> bool:
    """Return whether the upgrade to 1.38 is still ahead of a server; it is if its version is not known."""
    return nearest_release(server).minor < Release.V1_38.minor


def obstacles_of_claim(claim: ResourceClaim) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of a ResourceClaim, in its requests and in its allocation."""
    subject = Subject(kind="ResourceClaim", key=claim.metadata.key, uid=claim.metadata.uid)
    for name in dict.fromkeys(_negative_shares(claim)):
        yield UpgradeObstacle(
            subject,
            f"its allocation consumes a negative amount of {name}: kube-scheduler 1.38 places no pod with claims",
            stops_scheduling=True,
        )
    yield from (UpgradeObstacle(subject, what) for what in _problems_of_requests(claim.spec.devices))


def obstacles_of_template(template: ResourceClaimTemplate) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of the claims that are made from a ResourceClaimTemplate."""
    subject = Subject(kind="ResourceClaimTemplate", key=template.metadata.key, uid=template.metadata.uid)
    yield from (UpgradeObstacle(subject, what) for what in _problems_of_requests(template.spec.spec.get("devices")))


def obstacles_of_slice(resource_slice: ResourceSlice) -> Iterator[UpgradeObstacle]:
    """Yield what 1.38 refuses of a ResourceSlice once its driver changes any device of it, and who writes v1beta1."""
    spec, meta = resource_slice.spec, resource_slice.metadata
    subject = Subject(kind="ResourceSlice", key=meta.key, uid=meta.uid)
    for device in spec.devices or ():
        for problem in _problems_of_device(device):
            yield UpgradeObstacle(subject, f"device {device.name} of driver {spec.driver}: {problem}")
    if not isinstance(resource_slice, ManagedResourceSlice):
        return
    driver = Subject(kind="Driver", key=("", spec.driver), uid=NO_UID)
    for field in resource_slice.metadata.managed_fields or ():
        if field.api_version == _REMOVED_VERSION:
            yield UpgradeObstacle(driver, f"{field.manager} writes {_REMOVED_VERSION}, which 1.38 drops")


def claim_problems(claim: ResourceClaim, *, server: str) -> Iterator[Problem]:
    """Yield the obstacles of a claim as problems: one for its allocation, and one for its requests.

    ``server``: the version of the API server; once it is 1.38, only the allocation is a problem.
    """
    meta = claim.metadata
    if negative := dict.fromkeys(_negative_shares(claim)):
        names = list_names(negative)
        yield claim_problem(ProblemCode.NEGATIVE_SHARE, key=meta.key, uid=meta.uid, capacities=names)
    if is_ahead(server):
        yield from problems_of(obstacle for obstacle in obstacles_of_claim(claim) if not obstacle.stops_scheduling)


def problems(
    *, slices: Iterable[ResourceSlice], templates: Iterable[ResourceClaimTemplate], server: str
) -> Iterator[Problem]:
    """Yield the obstacles of templates, slices and drivers as problems; none once the server is 1.38."""
    if not is_ahead(server):
        return
    for template in templates:
        yield from problems_of(obstacles_of_template(template))
    obstacles = (obstacle for item in slices for obstacle in obstacles_of_slice(item))
    yield from problems_of(dict.fromkeys(obstacles))


def problems_of(obstacles: Iterable[UpgradeObstacle]) -> Iterator[Problem]:
    """Yield one problem for each object that has obstacles: a tenant may make any number of them."""
    causes: dict[Subject, list[str]] = {}
    for obstacle in obstacles:
        causes.setdefault(obstacle.subject, []).append(obstacle.what)
    for subject, texts in causes.items():
        yield upgrade_problem(subject, cause=list_names(texts))


def _problems_of_requests(devices: Mapping[str, Any] | None) -> Iterator[str]:
    for request in (devices or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            amounts = ((asked or {}).get("capacity") or {}).get("requests") or {}
            where = f"request {request.get('name', '')}"
            for name in _negative(amounts):
                yield f"{where} asks for a negative amount of {name}"
            for name in _doubly_qualified(amounts):
                yield f"{where} names capacity {name}, with more than one slash"
            if len(amounts) > CAPACITY_REQUESTS_MAX:
                yield f"{where} names {len(amounts)} capacities, and 1.38 allows {CAPACITY_REQUESTS_MAX}"


def _problems_of_device(device: Device) -> Iterator[str]:
    attributes = device.attributes or {}
    for name in _doubly_qualified([*attributes, *(device.capacity or {})]):
        yield f"the name {name} has more than one slash"
    for name, attribute in attributes.items():
        versions = [attribute.get("version", ""), *(attribute.get("versions") or ())]
        numbers = (number for version in versions for number in numeric_identifiers(str(version)))
        if any(len(number) > VERSION_DIGITS_MAX for number in numbers):
            yield f"a version in attribute {name} has a number of more than 18 digits"
    if device.node_selector is not None and len(device.node_selector.node_selector_terms or ()) != 1:
        yield "its nodeSelector has not exactly one term"


def _negative_shares(claim: ResourceClaim) -> Iterator[str]:
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return (name for result in results for name in _negative(result.consumed_capacity))


def _negative(amounts: Mapping[str, Any] | None) -> Iterator[str]:
    for name, amount in (amounts or {}).items():
        try:
            if quantities.parse(amount) < 0:
                yield name
        except MalformedQuantityError:
            continue


def _doubly_qualified(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.count("/") > 1)
