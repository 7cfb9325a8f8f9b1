"""Node selectors: of slices, devices, allocations, and of the affinity of pods."""

from dra.local.kinds import causes, names
from dra.local.objects import Object
from dra.local.refusals import Cause


def validate(path: str, selector: Object) -> list[Cause]:
    """Return what is wrong with a selector; it selects by at least one term."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [causes.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return causes.each(f"{path}.nodeSelectorTerms", terms, term)


def term(path: str, value: Object) -> list[Cause]:
    """Return what is wrong with one term."""
    found = causes.each(f"{path}.matchExpressions", value.get("matchExpressions") or [], _expression)
    return found + causes.each(f"{path}.matchFields", value.get("matchFields") or [], _field)


def _expression(path: str, value: Object) -> list[Cause]:
    key, operator, values = value.get("key", ""), value.get("operator", ""), value.get("values") or []
    found = []
    match operator:
        case "In" | "NotIn" if not values:
            found.append(causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist" if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(causes.forbidden(f"{path}.values", detail))
        case "Gt" | "Lt" if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(causes.required(f"{path}.values", detail))
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            found.append(causes.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    found += causes.texts(f"{path}.key", key, names.key(key))
    for index, text in enumerate(values):
        found += causes.texts(f"{path}.values[{index}]", text, names.label_value(text))
    return found


def _field(path: str, value: Object) -> list[Cause]:
    key, operator, values = value.get("key", ""), value.get("operator", ""), value.get("values") or []
    found = []
    if operator not in ("In", "NotIn"):
        found.append(causes.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(causes.required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*found, causes.invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, text in enumerate(values):
        found += causes.texts(f"{path}.values[{index}]", text, names.subdomain(text))
    return found
