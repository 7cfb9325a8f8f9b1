"""Validates device requests, constraints and configuration of ResourceClaims, templates and DeviceClasses.

Claims, slices and classes share the rules for names of drivers and pools, qualified names and taints. Limits are those
of upstream (``k8s.io/api/resource/v1/types.go`` and ``pkg/apis/resource/validation``).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from dra.cel.device_selectors import CompiledSelector, MalformedSelectorError
from dra.model import name_validation
from localplane.kinds import field_errors
from localplane.objects import Object, encode
from localplane.status_errors import FieldError

DEVICE_REQUESTS_MAX_SIZE: Final = 32
DEVICE_CONSTRAINTS_MAX_SIZE: Final = 32
DEVICE_CONFIG_MAX_SIZE: Final = 32
DEVICE_SELECTORS_MAX_SIZE: Final = 32
FIRST_AVAILABLE_MAX_SIZE: Final = 8
CEL_EXPRESSION_MAX_LENGTH: Final = 10 * 1024
OPAQUE_PARAMETERS_MAX_LENGTH: Final = 10 * 1024
POOL_NAME_MAX_LENGTH: Final = 253

DEVICE_TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
"""Effects of device taints and tolerations."""

_EXACT: Final = "ExactCount"
_ALL: Final = "All"
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_MAX_REFERENCE_PARTS: Final = 2


def set_request_defaults(devices: Object) -> None:
    """Default each request to exactly one device."""
    for request in devices.get("requests") or ():
        wanted = [request["exactly"]] if request.get("exactly") is not None else []
        for asked in (*wanted, *(request.get("firstAvailable") or ())):
            asked.setdefault("allocationMode", _EXACT)
            if asked["allocationMode"] == _EXACT and not asked.get("count"):
                asked["count"] = 1


def validate(path: str, devices: Object) -> list[FieldError]:
    """Return the errors of ``spec.devices`` of a claim."""
    requests = devices.get("requests") or []
    known = request_names(devices)
    causes = field_errors.validate_items(
        f"{path}.requests", requests, _validate_request, limit=DEVICE_REQUESTS_MAX_SIZE
    )
    if len(requests) <= DEVICE_REQUESTS_MAX_SIZE:
        causes += field_errors.validate_unique(f"{path}.requests", requests, lambda request: request.get("name", ""))
    causes += field_errors.validate_items(
        f"{path}.constraints",
        devices.get("constraints") or [],
        lambda at, constraint: _validate_constraint(at, constraint, known),
        limit=DEVICE_CONSTRAINTS_MAX_SIZE,
    )
    return causes + field_errors.validate_items(
        f"{path}.config",
        devices.get("config") or [],
        lambda at, config: (
            validate_request_references(f"{at}.requests", config.get("requests") or [], known)
            + validate_device_configuration(at, config)
        ),
        limit=DEVICE_CONFIG_MAX_SIZE,
    )


def request_names(devices: Object) -> AbstractSet[str]:
    """Return the names that refer to requests and subrequests of a claim: ``a``, ``b``, ``b/first``."""
    known = set()
    for request in devices.get("requests") or ():
        name = request.get("name", "")
        known.add(name)
        known |= {f"{name}/{alternative.get('name', '')}" for alternative in request.get("firstAvailable") or ()}
    return known


def validate_request_references(path: str, listed: list[str], known: AbstractSet[str]) -> list[FieldError]:
    """Return the errors of a list of references to requests."""
    causes = field_errors.validate_items(
        path, listed, lambda at, name: validate_request_reference(at, name, known), limit=DEVICE_REQUESTS_MAX_SIZE
    )
    return (
        causes if len(listed) > DEVICE_REQUESTS_MAX_SIZE else causes + field_errors.validate_unique(path, listed, str)
    )


def validate_request_reference(path: str, name: str, known: AbstractSet[str]) -> list[FieldError]:
    """Return the errors of a reference to a request."""
    segments = name.split("/")
    if len(segments) > _MAX_REFERENCE_PARTS:
        return [field_errors.invalid(path, name, _UNKNOWN_REQUEST)]
    causes = [
        cause
        for segment in segments
        for cause in field_errors.invalid_for_each(path, segment, name_validation.dns1123_label(segment))
    ]
    return causes if name in known else [*causes, field_errors.invalid(path, name, _UNKNOWN_REQUEST)]


def validate_selectors(path: str, listed: list[Object]) -> list[FieldError]:
    """Return the errors of CEL selectors, which must compile."""
    return field_errors.validate_items(path, listed, _validate_selector, limit=DEVICE_SELECTORS_MAX_SIZE)


def validate_device_configuration(path: str, config: Object) -> list[FieldError]:
    """Return the errors of opaque parameters, which only a driver interprets."""
    opaque = config.get("opaque")
    if opaque is None:
        return [field_errors.required(f"{path}.opaque")]
    causes = validate_driver_name(f"{path}.opaque.driver", opaque.get("driver", ""))
    return causes + validate_raw_object(
        f"{path}.opaque.parameters", opaque.get("parameters"), OPAQUE_PARAMETERS_MAX_LENGTH
    )


def validate_raw_object(path: str, value: object, limit: int) -> list[FieldError]:
    """Return the errors of an opaque JSON object of at most `limit` bytes."""
    if value is None:
        return [field_errors.required(path)]
    if len(encode(value)) > limit:
        return [field_errors.too_long(path, limit)]
    if not isinstance(value, dict):
        return [field_errors.invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def validate_driver_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of a driver name."""
    if not name:
        return [field_errors.required(path)]
    causes = (
        [field_errors.too_long(path, name_validation.DRIVER_NAME_MAX_LENGTH)]
        if len(name) > name_validation.DRIVER_NAME_MAX_LENGTH
        else []
    )
    return causes + field_errors.invalid_for_each(path, name, name_validation.dns1123_subdomain(name.lower()))


def validate_pool_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of a pool name: DNS subdomains separated by slashes."""
    if not name:
        return [field_errors.required(path)]
    causes = [field_errors.too_long(path, POOL_NAME_MAX_LENGTH)] if len(name) > POOL_NAME_MAX_LENGTH else []
    return causes + [
        cause
        for part in name.split("/")
        for cause in field_errors.invalid_for_each(path, part, name_validation.dns1123_subdomain(part))
    ]


def validate_device_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of a device name."""
    return field_errors.invalid_for_each(path, name, name_validation.dns1123_label(name))


def validate_qualified_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of an attribute or capacity name: a C identifier with an optional domain."""
    domain, slash, rest = name.partition("/")
    if not slash:
        return _validate_c_identifier(path, name)
    if "/" in rest:
        return []  # upstream does not validate names with two slashes
    causes = (
        validate_driver_name(path, domain)
        if domain
        else [field_errors.invalid(path, "", "the domain must not be empty")]
    )
    return causes + (
        _validate_c_identifier(path, rest) if rest else [field_errors.invalid(path, "", "the name must not be empty")]
    )


def validate_binding_conditions(path: str, holder: Object) -> list[FieldError]:
    """Return the errors of the conditions that must hold for a device before its pods are bound."""
    good, bad = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    causes = []
    for name, listed in (("bindingConditions", good), ("bindingFailureConditions", bad)):
        causes += field_errors.validate_items(
            f"{path}.{name}",
            listed,
            lambda at, condition: field_errors.invalid_for_each(
                at, condition, name_validation.qualified_name(condition)
            ),
            limit=4,
        )
    causes += field_errors.validate_unique(f"{path}.bindingConditions", good, str)
    causes += field_errors.validate_unique(f"{path}.bindingFailureConditions", bad, str)
    causes += [
        field_errors.invalid(
            f"{path}.bindingFailureConditions[{index}]",
            condition,
            "bindingFailureConditions must not overlap with bindingConditions",
        )
        for index, condition in enumerate(bad)
        if condition in good
    ]
    if bad and not good:
        detail = "bindingConditions are required to use bindingFailureConditions"
        causes.append(field_errors.invalid(f"{path}.bindingConditions", holder.get("bindingConditions"), detail))
    if good and not bad:
        detail = "bindingFailureConditions are required to use bindingConditions"
        causes.append(
            field_errors.invalid(f"{path}.bindingFailureConditions", holder.get("bindingFailureConditions"), detail)
        )
    return causes


def validate_device_taint(path: str, value: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of a device taint."""
    key, text = value.get("key", ""), value.get("value", "")
    causes = field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key))
    causes += field_errors.invalid_for_each(f"{path}.value", text, name_validation.label_value(text))
    return causes + field_errors.validate_enum(f"{path}.effect", value.get("effect", ""), DEVICE_TAINT_EFFECTS)


def _validate_c_identifier(path: str, name: str) -> list[FieldError]:
    causes = (
        [field_errors.too_long(path, name_validation.C_IDENTIFIER_MAX_LENGTH)]
        if len(name) > name_validation.C_IDENTIFIER_MAX_LENGTH
        else []
    )
    return causes + field_errors.invalid_for_each(path, name, name_validation.c_identifier(name))


def _validate_request(path: str, request: Object) -> list[FieldError]:
    name = request.get("name", "")
    causes = field_errors.invalid_for_each(f"{path}.name", name, name_validation.dns1123_label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        return [*causes, field_errors.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if exactly is not None:
        return causes + _validate_request_fields(f"{path}.exactly", exactly)
    if not alternatives:
        return [*causes, field_errors.required(path, _ONE_KIND)]
    causes += field_errors.validate_items(
        f"{path}.firstAvailable", alternatives, _validate_subrequest, limit=FIRST_AVAILABLE_MAX_SIZE
    )
    if len(alternatives) > FIRST_AVAILABLE_MAX_SIZE:
        return causes
    return causes + field_errors.validate_unique(
        f"{path}.firstAvailable", alternatives, lambda alternative: alternative.get("name", "")
    )


def _validate_subrequest(path: str, request: Object) -> list[FieldError]:
    name = request.get("name", "")
    return field_errors.invalid_for_each(
        f"{path}.name", name, name_validation.dns1123_label(name)
    ) + _validate_request_fields(path, request)


def _validate_request_fields(path: str, request: Object) -> list[FieldError]:
    name = request.get("deviceClassName", "")
    causes = (
        field_errors.invalid_for_each(f"{path}.deviceClassName", name, name_validation.dns1123_subdomain(name))
        if name
        else []
    )
    if not name:
        causes.append(field_errors.required(f"{path}.deviceClassName"))
    causes += validate_selectors(f"{path}.selectors", request.get("selectors") or [])
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == _ALL:
        if count:
            detail = f"must not be specified when allocationMode is '{mode}'"
            causes.append(field_errors.invalid(f"{path}.count", count, detail))
    elif mode == _EXACT:
        if count <= 0:
            causes.append(field_errors.invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        causes.append(field_errors.not_supported(f"{path}.allocationMode", mode, (_ALL, _EXACT)))
    return causes + field_errors.validate_items(
        f"{path}.tolerations", request.get("tolerations") or [], _validate_toleration
    )


def _validate_toleration(path: str, toleration: Object) -> list[FieldError]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    causes = field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key)) if key else []
    match operator:
        case "Exists":
            if value:
                causes.append(field_errors.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
        case "Equal":
            causes += field_errors.invalid_for_each(f"{path}.value", value, name_validation.label_value(value))
        case _:
            causes += field_errors.validate_enum(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    return causes + (field_errors.validate_enum(f"{path}.effect", effect, DEVICE_TAINT_EFFECTS) if effect else [])


def _validate_selector(path: str, selector: Object) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [field_errors.required(f"{path}.cel")]
    at, expression = f"{path}.cel.expression", cel.get("expression", "")
    if len(expression.encode()) > CEL_EXPRESSION_MAX_LENGTH:
        return [field_errors.too_long(at, CEL_EXPRESSION_MAX_LENGTH)]
    try:
        CompiledSelector(expression)
    except MalformedSelectorError as error:
        return [field_errors.invalid(at, expression, f"compilation failed: {error}")]
    return []


def _validate_constraint(path: str, constraint: Object, known: AbstractSet[str]) -> list[FieldError]:
    causes = validate_request_references(f"{path}.requests", constraint.get("requests") or [], known)
    for name in ("matchAttribute", "distinctAttribute"):
        attribute = constraint.get(name)
        if attribute is not None:
            causes += validate_qualified_name(f"{path}.{name}", attribute)
            if "/" not in attribute:
                detail = "a fully qualified name must be a domain and a name separated by a slash"
                causes.append(field_errors.invalid(f"{path}.{name}", attribute, detail))
            return causes
    detail = (  # upstream's message, the same in both cases
        'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    )
    return [*causes, field_errors.required(path, detail)]
