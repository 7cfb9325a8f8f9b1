"""The checks of devices in ResourceSlices that Kubernetes 1.38 adds (pkg/apis/resource/validation).

Devices that an update leaves as they are pass; a change of any device has all of them checked.
"""

from collections.abc import Iterable
from typing import Final

from dra.engine.devices.semantic_versions import numeric_identifiers
from localplane.kinds import field_errors
from localplane.objects import Object
from localplane.status_errors import FieldError

VERSION_DIGITS_MAX: Final = 18

_VERSION: Final = "must be a string compatible with semver.org spec 2.0.0, with at most 18 digits in numbers"


def validate_devices(devices: Iterable[Object]) -> list[FieldError]:
    """Return the errors of names, versions and node selectors."""
    errors: list[FieldError] = []
    for index, device in enumerate(devices):
        path = f"spec.devices[{index}]"
        errors += [
            field_errors.invalid(f"{path}.{field}", name, "must not contain more than one slash")
            for field in ("attributes", "capacity")
            for name in device.get(field) or {}
            if name.count("/") > 1
        ]
        for name, attribute in (device.get("attributes") or {}).items():
            errors += _validate_versions(f"{path}.attributes[{name}]", attribute)
        selector = device.get("nodeSelector")
        terms = (selector or {}).get("nodeSelectorTerms") or []
        if selector is not None and len(terms) != 1:
            detail = "must have exactly one node selector term"
            errors.append(field_errors.invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms or None, detail))
    return errors


def _validate_versions(path: str, attribute: Object) -> list[FieldError]:
    versions = [(f"{path}.version", attribute.get("version") or "")]
    versions += [(f"{path}.versions[{index}]", text) for index, text in enumerate(attribute.get("versions") or ())]
    return [
        field_errors.invalid(where, text, _VERSION)
        for where, text in versions
        if any(len(number) > VERSION_DIGITS_MAX for number in numeric_identifiers(text))
    ]
