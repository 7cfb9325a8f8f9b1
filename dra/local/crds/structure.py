"""Whether a schema is structural, and asks only for what an API server can do.

A structural schema says the shape of its objects (types, fields, items) outside of allOf, anyOf, oneOf and not; inside
of those it may only restrict values. So pruning, defaulting and server-side apply know each place's schema.

Two walks, as upstream: `check_places` looks at what each place says for itself, `check_shape` at where the shape is
said. A third, `check_rules`, compiles the rules when nothing else is wrong.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from dra.cel.patterns import Pattern
from dra.local.crds import lists, pruning, rules, values
from dra.local.crds.causes import child
from dra.local.crds.messages import Checker
from dra.local.crds.pruning import EMBEDDED, META, PRESERVE, Node
from dra.local.crds.typed import INT_OR_STRING
from dra.local.kinds import causes
from dra.local.kinds.causes import forbidden, invalid, required, unsupported
from dra.local.refusals import Cause

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
MAP_TYPE: Final = "x-kubernetes-map-type"
_NOT_SUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NESTED: Final = ("allOf", "anyOf", "oneOf")


def check(schema: Node, path: str) -> list[Cause]:
    """Return what is wrong with a schema."""
    found = list(_root(schema, path))
    shape = [*check_shape(schema, path, level="root"), *_known(schema, path)]
    found += sorted(shape, key=lambda cause: (cause.field, cause.message))
    if not found:
        found += check_defaults(schema, path)
    found += check_places(schema, path, no_default="")
    return found or list(check_rules(schema, path, checker=Checker(schema)))


def _root(schema: Node, path: str) -> Iterator[Cause]:
    """Upstream looks at a few fields here that only the root must not have."""
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def check_places(schema: Node, path: str, *, no_default: str, meta: bool = False, root: bool = True) -> Iterator[Cause]:
    """Yield what is wrong with each place by itself; `no_default` is why there may be no default, if so."""
    yield from _types(schema, path)
    if schema.get("default") is not None and no_default:
        yield forbidden(f"{path}.default", f"must not be set {no_default}")
    if meta and schema.get(EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if properties and others is not None and others is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(others, dict):
        why = "inside additionalProperties applying to object metadata" if meta else no_default
        yield from check_places(others, f"{path}.additionalProperties", no_default=why, meta=meta, root=False)
    for name, each in properties.items():
        special = (root or bool(schema.get(EMBEDDED))) and name in META
        why = f"in top-level {name}" if special and root else no_default
        here = f"{path}.properties[{name}]"
        yield from check_places(each, here, no_default=why, meta=meta or special, root=False)
    for where, each in _nested(schema, path):
        yield from check_places(each, where, no_default=no_default, meta=meta, root=False)
    if isinstance(items := schema.get("items"), dict):
        yield from check_places(items, f"{path}.items", no_default=no_default, meta=meta, root=False)
    yield from _extensions(schema, path)
    yield from _rules(schema, path)


def _types(schema: Node, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    yield from (forbidden(f"{path}.{name}", f"{name} is not supported") for name in _NOT_SUPPORTED if schema.get(name))
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)


def _nested(schema: Node, path: str) -> Iterator[tuple[str, Node]]:
    if isinstance(schema.get("not"), dict):
        yield f"{path}.not", schema["not"]
    for name in _NESTED:
        yield from ((f"{path}.{name}[{index}]", each) for index, each in enumerate(schema.get(name) or ()))


def _extensions(schema: Node, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", value=False, detail="must be true or undefined")
    map_type, list_type = schema.get(MAP_TYPE), schema.get(lists.TYPE)
    if map_type is not None and kind != "object":
        yield _typed(path, kind, "must be object if x-kubernetes-map-type is specified")
    if map_type not in (None, "atomic", "granular"):
        yield unsupported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))
    if list_type is not None and kind != "array":
        yield _typed(path, kind, "must be array if x-kubernetes-list-type is specified")
    if list_type not in (None, "atomic", "set", "map"):
        yield unsupported(f"{path}.{lists.TYPE}", list_type, ("atomic", "set", "map"))
    keys = schema.get(lists.KEYS) or []
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{lists.TYPE}"
        yield required(where, detail) if list_type is None else invalid(where, list_type, detail)
    items = schema.get("items")
    if list_type == "set" and kind == "array" and isinstance(items, dict):
        yield from _set_items(items, f"{path}.items")
    if list_type == "map":
        yield from _map(schema, keys, path)
    if list_type in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")


def _typed(path: str, kind: str, detail: str) -> Cause:
    return invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)


def _set_items(items: Node, path: str) -> Iterator[Cause]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(lists.TYPE, "atomic") != "atomic":
        yield invalid(f"{path}.{lists.TYPE}", items.get(lists.TYPE), detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{MAP_TYPE}", items.get(lists.TYPE), detail)


def _map(schema: Node, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        yield required(f"{path}.{lists.KEYS}", "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(items, dict):
        yield invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", detail)
        return
    seen: set[str] = set()
    for key in keys:
        field = (items.get("properties") or {}).get(key)
        if field is None:
            yield invalid(f"{path}.{lists.KEYS}", keys, "entries must all be names of item properties")
        elif field.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in seen:
            yield invalid(f"{path}.{lists.KEYS}", keys, "must not contain duplicate entries")
        seen.add(key)
        yield from _key(field, f"{path}.items.properties[{key}]", needed=key in (items.get("required") or ()))


def _key(field: Node | None, path: str, *, needed: bool) -> Iterator[Cause]:
    if field is None:
        return
    about = "this property is in x-kubernetes-list-map-keys, so it"
    if not needed and field.get("default") is None:
        yield required(f"{path}.default", f"{about} must have a default or be a required property")
    if field.get("nullable"):
        yield forbidden(f"{path}.nullable", f"{about} cannot be nullable")


def _rules(schema: Node, path: str) -> Iterator[Cause]:
    """Yield what is wrong with rules, but for their expressions."""
    for index, rule in enumerate(schema.get(rules.RULES) or ()):
        where = f"{path}.{rules.RULES}[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _lines(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _lines(text) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") and rule["reason"] not in _REASONS:
            yield unsupported(f"{where}.reason", rule["reason"], _REASONS)
        if field := rule.get("fieldPath"):
            yield from causes.texts(f"{where}.fieldPath", field, _faults_of_path(field, schema))


def _faults_of_path(field: str, schema: Node) -> Iterator[str]:
    if not field.strip():
        yield "must be non-empty if specified"
    if _lines(field):
        yield "must not contain line breaks"
    if not _leads(field, schema):
        yield "must be a valid path"


def _lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads(path: str, schema: Node) -> bool:
    """Whether a rule's fieldPath, ``.a['b-c'].d``, leads to a field."""
    place: Any = schema
    rest = path
    while rest:
        if rest.startswith("['"):
            name, closed, rest = rest[2:].partition("']")
            if not closed:
                return False
        elif rest.startswith("."):
            end = min((at for at in (rest.find(".", 1), rest.find("[", 1)) if at > 0), default=len(rest))
            name, rest = rest[1:end], rest[end:]
        else:
            return False
        known, place = pruning.inner(place, name)
        if not known:
            return False
    return True


def check_shape(schema: Node, path: str, *, level: str) -> Iterator[Cause]:
    """Yield where the shape is not said as it must be; `level` is root, item or field."""
    kind = schema.get("type") or ""
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items := schema.get("items"), dict):
        yield from check_shape(items, f"{path}.items", level="item")
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in properties.items():
        yield from check_shape(each, f"{path}.properties[{name}]", level="field")
    if others is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(others, dict):
        yield from check_shape(others, f"{path}.additionalProperties", level="field")
    yield from _marks(schema, path)
    yield from _values(schema, path, skip=_either(schema))
    yield from _own_type(schema, path, kind, level)
    yield from _meta(schema, path, level)


def _marks(schema: Node, path: str) -> Iterator[Cause]:
    detail = "must be false if x-kubernetes-int-or-string is true"
    for mark in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(mark):
            yield invalid(f"{path}.{mark}", value=True, detail=detail)


def _either(schema: Node) -> str:
    """Return which list spells out an int-or-string, the one shape that may be said inside of anyOf."""
    if schema.get("anyOf") == _EITHER:
        return "anyOf"
    every = schema.get("allOf") or [{}]
    return "allOf" if every[0].get("anyOf") == _EITHER else ""


def _own_type(schema: Node, path: str, kind: str, level: str) -> Iterator[Cause]:
    where = f"{path}.type"
    if schema.get(EMBEDDED) and kind != "object":
        yield _typed(path, kind, "must be object if x-kubernetes-embedded-resource is true")
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        places = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield required(where, f"must not be empty {places[level]}")
    if schema.get(EMBEDDED) and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if level == "root" and kind not in ("", "object"):
        yield invalid(where, kind, "must be object at the root")


def _meta(schema: Node, path: str, level: str) -> Iterator[Cause]:
    """Yield what is wrong with what is said about the fields that all objects have."""
    properties = schema.get("properties") or {}
    special = level == "root" or bool(schema.get(EMBEDDED))
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        found = properties.get(name)
        if special and found is not None and found.get("type") != wanted:
            yield invalid(f"{path}.properties[{name}].type", found.get("type") or "", f"must be {wanted}")
    meta = properties.get("metadata")
    if level == "root" and meta is not None:
        rest = {name: value for name, value in meta.items() if name not in ("type", "description", "default")}
        if set(rest) - {"properties"} or set(rest.get("properties") or ()) - {"name", "generateName"}:
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", detail)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)


def _values(schema: Node, path: str, *, skip: str = "") -> Iterator[Cause]:
    """Yield what nested schemas say although it is not about values."""
    for where, each in _nested(schema, path):
        inside = where.removeprefix(f"{path}.")
        if skip == "anyOf" and inside.startswith("anyOf["):
            continue
        yield from _value(each, where, skip="anyOf" if skip == "allOf" and inside == "allOf[0]" else "")
    if (pattern := schema.get("pattern")) and (error := Pattern.of(pattern).error):
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield invalid(f"{path}.pattern", pattern, detail)


_EMPTY: Final = ("type", "title", "description", lists.KEYS, rules.RULES)
_UNDEFINED: Final = ("additionalProperties", "default", lists.TYPE, MAP_TYPE)
_FALSE: Final = ("nullable", PRESERVE, EMBEDDED, INT_OR_STRING)


def _value(schema: Node, path: str, *, skip: str = "") -> Iterator[Cause]:
    yield from _values(schema, path, skip=skip)
    if isinstance(items := schema.get("items"), dict):
        yield from _value(items, f"{path}.items")
    for name, each in (schema.get("properties") or {}).items():
        yield from _value(each, f"{path}.properties[{name}]")
    for names, wanted in ((_EMPTY, "empty"), (_UNDEFINED, "undefined"), (_FALSE, "false")):
        for name in names:
            if schema.get(name) if wanted != "undefined" else schema.get(name) is not None:
                yield forbidden(f"{path}.{name}", f"must be {wanted} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _known(schema: Node, path: str) -> Iterator[Cause]:
    """Yield the places that the root's nested schemas restrict and it does not have; upstream asks the root alone."""
    for where, each in _nested(schema, path):
        yield from _placed(each, schema, where, path)


def _placed(nested: Node, schema: Node, where: str, path: str) -> Iterator[Cause]:
    for inner, each in _nested(nested, where):
        yield from _placed(each, schema, inner, path)
    if isinstance(items := nested.get("items"), dict):
        if isinstance(schema.get("items"), dict):
            yield from _placed(items, schema["items"], f"{where}.items", f"{path}.items")
        else:
            yield required(f"{path}.items", f"because it is defined in {where}.items")
    own, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in (nested.get("properties") or {}).items():
        if name in own:
            yield from _placed(each, own[name], f"{where}.properties[{name}]", f"{path}.properties[{name}]")
        elif not isinstance(others, dict):
            yield required(f"{path}.properties[{name}]", f"because it is defined in {where}.properties[{name}]")


def check_defaults(schema: Node, path: str) -> Iterator[Cause]:
    """Yield the defaults that are no values of their schemas."""
    default = schema.get("default")
    if default is not None:
        where = f"{path}.default"
        kept = deepcopy({"v": default})
        pruning.prune(kept, {"properties": {"v": schema}})
        if kept["v"] != default:
            yield invalid(where, default, "must not have unknown fields")
        for cause in values.check(default, schema):
            inside = cause.field.removeprefix(".")
            yield Cause(cause.fault, child(where, inside) if inside else where, cause.message)
    for name, each in (schema.get("properties") or {}).items():
        yield from check_defaults(each, f"{path}.properties[{name}]")
    if isinstance(items := schema.get("items"), dict):
        yield from check_defaults(items, f"{path}.items")


def check_rules(schema: Node, path: str, *, checker: Checker, lost: str = "") -> Iterator[Cause]:
    """Yield the rules that cannot be compiled; `lost` is the place below which no old value can be found."""
    for index, spec in enumerate(schema.get(rules.RULES) or ()):
        where = f"{path}.{rules.RULES}[{index}]"
        try:
            if wrong := checker.wrong(spec["rule"], schema, optional=bool(spec.get("optionalOldSelf"))):
                yield invalid(f"{where}.rule", _as_go(spec), f"compilation failed: {wrong}")
                continue
            rule = rules.compiled(spec, schema)
        except rules.Wrong as wrong:
            yield invalid(f"{where}.{wrong.part}", _as_go(spec), wrong.detail)
            continue
        if rule.of_change and lost:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
            yield invalid(f"{where}.rule", spec["rule"], detail)
        elif not rule.of_change and spec.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", spec["optionalOldSelf"], detail)
    below = lost or (path if schema.get(MAP_TYPE) == "atomic" else "")
    for name, each in (schema.get("properties") or {}).items():
        yield from check_rules(each, f"{path}.properties[{name}]", checker=checker, lost=below)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from check_rules(others, f"{path}.additionalProperties", checker=checker, lost=below)
    if isinstance(items := schema.get("items"), dict):
        known = schema.get(lists.TYPE) == "map"
        yield from check_rules(items, f"{path}.items", checker=checker, lost=lost or ("" if known else path))


def _as_go(spec: Node) -> Node:
    """Return a rule as upstream prints it: its internal form has no names for JSON."""
    return {
        "Rule": spec["rule"],
        "Message": spec.get("message") or "",
        "MessageExpression": spec.get("messageExpression") or "",
        "Reason": spec.get("reason"),
        "FieldPath": spec.get("fieldPath") or "",
        "OptionalOldSelf": spec.get("optionalOldSelf"),
    }
