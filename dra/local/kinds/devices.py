"""What is asked of devices: the requests, constraints and configuration of claims, templates and classes.

Also the small rules that claims, slices and classes share: names of drivers and pools, qualified names, taints. Limits
are upstream's (specs/dra-upstream.md §8).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from dra.cel.devices import MalformedSelectorError, Selector
from dra.local.kinds import causes, names
from dra.local.objects import Object, encode
from dra.local.refusals import Cause

REQUESTS: Final = 32
CONSTRAINTS: Final = 32
CONFIGS: Final = 32
SELECTORS: Final = 32
SUBREQUESTS: Final = 8
EXPRESSION_LENGTH: Final = 10 * 1024
PARAMETERS_LENGTH: Final = 10 * 1024
POOL_LENGTH: Final = 253

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
"""Of taints and tolerations of devices."""

_EXACT: Final = "ExactCount"
_ALL: Final = "All"
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_TWO: Final = 2


def default(devices: Object) -> None:
    """Ask for one device where nothing is said."""
    for request in devices.get("requests") or ():
        wanted = [request["exactly"]] if request.get("exactly") is not None else []
        for each in (*wanted, *(request.get("firstAvailable") or ())):
            each.setdefault("allocationMode", _EXACT)
            if each["allocationMode"] == _EXACT and not each.get("count"):
                each["count"] = 1


def validate(path: str, devices: Object) -> list[Cause]:
    """Return what is wrong with ``spec.devices`` of a claim."""
    requests = devices.get("requests") or []
    known = request_names(devices)
    found = causes.each(f"{path}.requests", requests, _request, limit=REQUESTS)
    if len(requests) <= REQUESTS:
        found += causes.unique(f"{path}.requests", requests, lambda each: each.get("name", ""))
    found += causes.each(
        f"{path}.constraints",
        devices.get("constraints") or [],
        lambda at, each: _constraint(at, each, known),
        limit=CONSTRAINTS,
    )
    return found + causes.each(
        f"{path}.config",
        devices.get("config") or [],
        lambda at, each: (
            names_of_requests(f"{at}.requests", each.get("requests") or [], known) + configuration(at, each)
        ),
        limit=CONFIGS,
    )


def request_names(devices: Object) -> AbstractSet[str]:
    """Return by what the requests of a claim can be referred to: ``a``, ``b``, ``b/first``."""
    known = set()
    for request in devices.get("requests") or ():
        name = request.get("name", "")
        known.add(name)
        known |= {f"{name}/{each.get('name', '')}" for each in request.get("firstAvailable") or ()}
    return known


def names_of_requests(path: str, listed: list[str], known: AbstractSet[str]) -> list[Cause]:
    """Check a list of references to requests."""
    found = causes.each(path, listed, lambda at, name: name_of_request(at, name, known), limit=REQUESTS)
    return found if len(listed) > REQUESTS else found + causes.unique(path, listed, str)


def name_of_request(path: str, name: str, known: AbstractSet[str]) -> list[Cause]:
    """Check one reference to a request."""
    segments = name.split("/")
    if len(segments) > _TWO:
        return [causes.invalid(path, name, _UNKNOWN_REQUEST)]
    found = [cause for segment in segments for cause in causes.texts(path, segment, names.label(segment))]
    return found if name in known else [*found, causes.invalid(path, name, _UNKNOWN_REQUEST)]


def selectors(path: str, listed: list[Object]) -> list[Cause]:
    """Check CEL selectors: they must compile."""
    return causes.each(path, listed, _selector, limit=SELECTORS)


def configuration(path: str, config: Object) -> list[Cause]:
    """Check parameters that only a driver understands."""
    opaque = config.get("opaque")
    if opaque is None:
        return [causes.required(f"{path}.opaque")]
    found = driver(f"{path}.opaque.driver", opaque.get("driver", ""))
    return found + raw(f"{path}.opaque.parameters", opaque.get("parameters"), PARAMETERS_LENGTH)


def raw(path: str, value: object, limit: int) -> list[Cause]:
    """Check a JSON object of somebody else's making."""
    if value is None:
        return [causes.required(path)]
    if len(encode(value)) > limit:
        return [causes.too_long(path, limit)]
    if not isinstance(value, dict):
        return [causes.invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def driver(path: str, name: str) -> list[Cause]:
    """Check the name of a driver."""
    if not name:
        return [causes.required(path)]
    found = [causes.too_long(path, names.DRIVER_LENGTH)] if len(name) > names.DRIVER_LENGTH else []
    return found + causes.texts(path, name, names.subdomain(name.lower()))


def pool(path: str, name: str) -> list[Cause]:
    """Check the name of a pool: subdomains, with slashes between them."""
    if not name:
        return [causes.required(path)]
    found = [causes.too_long(path, POOL_LENGTH)] if len(name) > POOL_LENGTH else []
    return found + [cause for part in name.split("/") for cause in causes.texts(path, part, names.subdomain(part))]


def device(path: str, name: str) -> list[Cause]:
    """Check the name of a device."""
    return causes.texts(path, name, names.label(name))


def qualified_name(path: str, name: str) -> list[Cause]:
    """Check the name of an attribute or capacity: an identifier, maybe with a domain."""
    domain, slash, rest = name.partition("/")
    if not slash:
        return _identifier(path, name)
    if "/" in rest:
        return []  # upstream looks at no name with two slashes
    found = driver(path, domain) if domain else [causes.invalid(path, "", "the domain must not be empty")]
    return found + (_identifier(path, rest) if rest else [causes.invalid(path, "", "the name must not be empty")])


def binding_conditions(path: str, holder: Object) -> list[Cause]:
    """Check the conditions that a device wants fulfilled before its pods are bound."""
    good, bad = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    found = []
    for name, listed in (("bindingConditions", good), ("bindingFailureConditions", bad)):
        found += causes.each(
            f"{path}.{name}", listed, lambda at, each: causes.texts(at, each, names.key(each)), limit=4
        )
    found += causes.unique(f"{path}.bindingConditions", good, str)
    found += causes.unique(f"{path}.bindingFailureConditions", bad, str)
    found += [
        causes.invalid(
            f"{path}.bindingFailureConditions[{index}]",
            each,
            "bindingFailureConditions must not overlap with bindingConditions",
        )
        for index, each in enumerate(bad)
        if each in good
    ]
    if bad and not good:
        detail = "bindingConditions are required to use bindingFailureConditions"
        found.append(causes.invalid(f"{path}.bindingConditions", holder.get("bindingConditions"), detail))
    if good and not bad:
        detail = "bindingFailureConditions are required to use bindingConditions"
        found.append(causes.invalid(f"{path}.bindingFailureConditions", holder.get("bindingFailureConditions"), detail))
    return found


def taint(path: str, value: Mapping[str, Any]) -> list[Cause]:
    """Check a taint of a device."""
    key, text = value.get("key", ""), value.get("value", "")
    found = causes.texts(f"{path}.key", key, names.key(key))
    found += causes.texts(f"{path}.value", text, names.label_value(text))
    return found + causes.one_of(f"{path}.effect", value.get("effect", ""), EFFECTS)


def _identifier(path: str, name: str) -> list[Cause]:
    found = [causes.too_long(path, names.C_NAME_LENGTH)] if len(name) > names.C_NAME_LENGTH else []
    return found + causes.texts(path, name, names.c_name(name))


def _request(path: str, request: Object) -> list[Cause]:
    name = request.get("name", "")
    found = causes.texts(f"{path}.name", name, names.label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        return [*found, causes.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if exactly is not None:
        return found + _wanted(f"{path}.exactly", exactly)
    if not alternatives:
        return [*found, causes.required(path, _ONE_KIND)]
    found += causes.each(f"{path}.firstAvailable", alternatives, _subrequest, limit=SUBREQUESTS)
    if len(alternatives) > SUBREQUESTS:
        return found
    return found + causes.unique(f"{path}.firstAvailable", alternatives, lambda each: each.get("name", ""))


def _subrequest(path: str, request: Object) -> list[Cause]:
    name = request.get("name", "")
    return causes.texts(f"{path}.name", name, names.label(name)) + _wanted(path, request)


def _wanted(path: str, request: Object) -> list[Cause]:
    name = request.get("deviceClassName", "")
    found = causes.texts(f"{path}.deviceClassName", name, names.subdomain(name)) if name else []
    if not name:
        found.append(causes.required(f"{path}.deviceClassName"))
    found += selectors(f"{path}.selectors", request.get("selectors") or [])
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == _ALL:
        if count:
            detail = f"must not be specified when allocationMode is '{mode}'"
            found.append(causes.invalid(f"{path}.count", count, detail))
    elif mode == _EXACT:
        if count <= 0:
            found.append(causes.invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        found.append(causes.unsupported(f"{path}.allocationMode", mode, (_ALL, _EXACT)))
    return found + causes.each(f"{path}.tolerations", request.get("tolerations") or [], _toleration)


def _toleration(path: str, toleration: Object) -> list[Cause]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    found = causes.texts(f"{path}.key", key, names.key(key)) if key else []
    match operator:
        case "Exists":
            if value:
                found.append(causes.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
        case "Equal":
            found += causes.texts(f"{path}.value", value, names.label_value(value))
        case _:
            found += causes.one_of(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    return found + (causes.one_of(f"{path}.effect", effect, EFFECTS) if effect else [])


def _selector(path: str, selector: Object) -> list[Cause]:
    cel = selector.get("cel")
    if cel is None:
        return [causes.required(f"{path}.cel")]
    at, expression = f"{path}.cel.expression", cel.get("expression", "")
    if len(expression.encode()) > EXPRESSION_LENGTH:
        return [causes.too_long(at, EXPRESSION_LENGTH)]
    try:
        Selector(expression)
    except MalformedSelectorError as error:
        return [causes.invalid(at, expression, f"compilation failed: {error}")]
    return []


def _constraint(path: str, constraint: Object, known: AbstractSet[str]) -> list[Cause]:
    found = names_of_requests(f"{path}.requests", constraint.get("requests") or [], known)
    for name in ("matchAttribute", "distinctAttribute"):
        attribute = constraint.get(name)
        if attribute is not None:
            found += qualified_name(f"{path}.{name}", attribute)
            if "/" not in attribute:
                detail = "a fully qualified name must be a domain and a name separated by a slash"
                found.append(causes.invalid(f"{path}.{name}", attribute, detail))
            return found
    detail = (  # the sentence is upstream's, and says the same in both cases
        'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    )
    return [*found, causes.required(path, detail)]
