"""The checks of devices and capacities that Kubernetes 1.38 adds (pkg/apis/resource/validation).

Devices that an update leaves as they are pass; a change of any device has all of them checked, and a change of
perDeviceNodeSelection has their places checked. The spec of a claim or a template never changes, and neither does an
allocation, so that these are checked when they are made.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.devices.semantic_versions import numeric_identifiers
from dra.model import quantities
from localplane.kinds import device_validation, field_errors
from localplane.objects import Object
from localplane.status_errors import FieldError

VERSION_DIGITS_MAX: Final = 18

CAPACITIES_MAX: Final = 32
"""Maximum number of capacities that a request names, or an allocated device consumes."""

_VERSION: Final = "must be a string compatible with semver.org spec 2.0.0, with at most 18 digits in numbers"


def validate_devices(devices: Iterable[Object]) -> list[FieldError]:
    """Return the errors of names and versions."""
    errors: list[FieldError] = []
    for index, device in enumerate(devices):
        path = f"spec.devices[{index}]"
        for field in ("attributes", "capacity"):
            errors += _validate_slashes(f"{path}.{field}", device.get(field) or {})
        for name, attribute in (device.get("attributes") or {}).items():
            errors += _validate_versions(f"{path}.attributes[{name}]", attribute)
    return errors


def validate_node_selector(path: str, device: Object) -> list[FieldError]:
    """Return the error of a node selector with more than one term, or none: the allocator merges single terms only."""
    selector = device.get("nodeSelector")
    terms = (selector or {}).get("nodeSelectorTerms") or []
    if selector is None or len(terms) == 1:
        return []
    detail = "must have exactly one node selector term"
    return [field_errors.invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms or None, detail)]


def validate_requests(path: str, requests: Iterable[Object]) -> list[FieldError]:
    """Return the errors of the capacities that the requests of a claim and their alternatives name."""
    errors: list[FieldError] = []
    for index, request in enumerate(requests):
        at = f"{path}[{index}]"
        asked = [(f"{at}.exactly", request.get("exactly") or {})]
        asked += [
            (f"{at}.firstAvailable[{n}]", alternative)
            for n, alternative in enumerate(request.get("firstAvailable") or ())
        ]
        for where, device_request in asked:
            errors += validate_amounts(
                f"{where}.capacity.requests", (device_request.get("capacity") or {}).get("requests") or {}
            )
    return errors


def validate_amounts(path: str, amounts: Mapping[str, str | int]) -> list[FieldError]:
    """Return the errors of amounts of capacities: of their names, their number, and amounts below 0."""
    errors = [cause for name in amounts for cause in device_validation.validate_qualified_name(path, name)]
    errors += _validate_slashes(path, amounts)
    if len(amounts) > CAPACITIES_MAX:
        return [*errors, field_errors.too_many(path, len(amounts), CAPACITIES_MAX)]
    return errors + [
        field_errors.invalid(f"{path}[{name}]", str(amount), "must be greater than or equal to 0")
        for name, amount in amounts.items()
        if quantities.parse(amount) < 0
    ]


def _validate_slashes(path: str, names: Iterable[str]) -> list[FieldError]:
    detail = "must not contain more than one slash"
    return [field_errors.invalid(path, name, detail) for name in names if name.count("/") > 1]


def _validate_versions(path: str, attribute: Object) -> list[FieldError]:
    versions = [(f"{path}.version", attribute.get("version") or "")]
    versions += [(f"{path}.versions[{index}]", text) for index, text in enumerate(attribute.get("versions") or ())]
    return [
        field_errors.invalid(where, text, _VERSION)
        for where, text in versions
        if any(len(number) > VERSION_DIGITS_MAX for number in numeric_identifiers(text))
    ]
