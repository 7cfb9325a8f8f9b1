"""Validates and evaluates label selectors of workloads."""

from collections.abc import Mapping

from dra.model import name_validation
from localplane.kinds import field_errors
from localplane.objects import Object
from localplane.status_errors import FieldError


def validate(path: str, selector: Object) -> list[FieldError]:
    """Return the errors of a label selector."""
    causes = []
    for key, value in (selector.get("matchLabels") or {}).items():
        causes += field_errors.invalid_for_each(f"{path}.matchLabels", key, name_validation.qualified_name(key))
        causes += field_errors.invalid_for_each(f"{path}.matchLabels[{key}]", value, name_validation.label_value(value))
    return causes + field_errors.validate_items(
        f"{path}.matchExpressions", selector.get("matchExpressions") or [], _validate_expression
    )


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches labels."""
    wanted = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _expression_matches(expression, labels) for expression in expressions
    )


def _validate_expression(path: str, expression: Object) -> list[FieldError]:
    key, operator, values = expression.get("key", ""), expression.get("operator", ""), expression.get("values") or []
    causes = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(
                field_errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(field_errors.forbidden(f"{path}.values", detail))
    else:
        causes.append(field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key))
    for index, value in enumerate(values):
        causes += field_errors.invalid_for_each(f"{path}.values[{index}]", value, name_validation.label_value(value))
    return causes


def _expression_matches(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
