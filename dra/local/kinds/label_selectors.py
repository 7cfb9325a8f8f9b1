"""Label selectors of workloads: whether they are well-formed, and whether they choose the pods they make."""

from collections.abc import Mapping

from dra.local.kinds import causes, names
from dra.local.objects import Object
from dra.local.refusals import Cause


def validate(path: str, selector: Object) -> list[Cause]:
    """Return what is wrong with a selector."""
    found = []
    for key, value in (selector.get("matchLabels") or {}).items():
        found += causes.texts(f"{path}.matchLabels", key, names.key(key))
        found += causes.texts(f"{path}.matchLabels[{key}]", value, names.label_value(value))
    return found + causes.each(f"{path}.matchExpressions", selector.get("matchExpressions") or [], _expression)


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels are selected."""
    wanted = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted) and all(_holds(each, labels) for each in expressions)


def _expression(path: str, expression: Object) -> list[Cause]:
    key, operator, values = expression.get("key", ""), expression.get("operator", ""), expression.get("values") or []
    found = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(causes.forbidden(f"{path}.values", detail))
    else:
        found.append(causes.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    found += causes.texts(f"{path}.key", key, names.key(key))
    for index, value in enumerate(values):
        found += causes.texts(f"{path}.values[{index}]", value, names.label_value(value))
    return found


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
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
