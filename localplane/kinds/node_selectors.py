"""Validates node selectors of slices, devices, allocations and pod affinity."""

from dra.model import name_validation
from localplane.kinds import field_errors
from localplane.objects import Object
from localplane.status_errors import FieldError


def validate(path: str, selector: Object) -> list[FieldError]:
    """Return the errors of a node selector, which must have at least one term."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [field_errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return field_errors.validate_items(f"{path}.nodeSelectorTerms", terms, validate_term)


def validate_term(path: str, value: Object) -> list[FieldError]:
    """Return the errors of one term."""
    causes = field_errors.validate_items(
        f"{path}.matchExpressions", value.get("matchExpressions") or [], _validate_expression
    )
    return causes + field_errors.validate_items(f"{path}.matchFields", value.get("matchFields") or [], _validate_field)


def _validate_expression(path: str, value: Object) -> list[FieldError]:
    key, operator, values = value.get("key", ""), value.get("operator", ""), value.get("values") or []
    causes = []
    match operator:
        case "In" | "NotIn" if not values:
            causes.append(
                field_errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
        case "Exists" | "DoesNotExist" if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(field_errors.forbidden(f"{path}.values", detail))
        case "Gt" | "Lt" if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(field_errors.required(f"{path}.values", detail))
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            causes.append(field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key))
    for index, text in enumerate(values):
        causes += field_errors.invalid_for_each(f"{path}.values[{index}]", text, name_validation.label_value(text))
    return causes


def _validate_field(path: str, value: Object) -> list[FieldError]:
    key, operator, values = value.get("key", ""), value.get("operator", ""), value.get("values") or []
    causes = []
    if operator not in ("In", "NotIn"):
        causes.append(field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(field_errors.required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*causes, field_errors.invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, text in enumerate(values):
        causes += field_errors.invalid_for_each(
            f"{path}.values[{index}]", text, name_validation.dns1123_subdomain(text)
        )
    return causes
