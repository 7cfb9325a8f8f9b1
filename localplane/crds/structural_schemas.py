"""Validates the schemas of CustomResourceDefinitions: schemas must be structural and use only supported features.

A structural schema declares the shape of its objects (types, fields, items) outside of allOf, anyOf, oneOf and not;
nested schemas inside of these may only restrict values. So pruning, defaulting and server-side apply know the schema of
each field.

There are two passes, as upstream: `check_openapi_schema` validates each schema by itself, `check_structural` validates
where the shape is declared. A third pass, `check_validation_rules`, compiles the CEL rules if there is no other error.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from dra.cel.patterns import Pattern
from localplane.crds import list_types, pruning, schema_validation, validation_rules
from localplane.crds.cel_values import INT_OR_STRING
from localplane.crds.pruning import EMBEDDED_RESOURCE, PRESERVE_UNKNOWN_FIELDS, TYPE_AND_OBJECT_META, JsonSchemaProps
from localplane.crds.rule_type_checker import RuleTypeChecker
from localplane.crds.schema_errors import child_path
from localplane.kinds import field_errors
from localplane.kinds.field_errors import forbidden, invalid, not_supported, required
from localplane.status_errors import FieldError

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
MAP_TYPE: Final = "x-kubernetes-map-type"
_UNSUPPORTED_FIELDS: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
_RULE_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NESTED_LISTS: Final = ("allOf", "anyOf", "oneOf")


def check_schema(schema: JsonSchemaProps, path: str) -> list[FieldError]:
    """Return the errors of a schema."""
    found = list(_check_root(schema, path))
    shape = [*check_structural(schema, path, level="root"), *_check_completeness(schema, path)]
    found += sorted(shape, key=lambda cause: (cause.field, cause.message))
    if not found:
        found += check_defaults(schema, path)
    found += check_openapi_schema(schema, path, no_default="")
    return found or list(check_validation_rules(schema, path, checker=RuleTypeChecker(schema)))


def _check_root(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    """Yield the errors of fields that only the root must not have, as upstream."""
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def check_openapi_schema(
    schema: JsonSchemaProps, path: str, *, no_default: str, meta: bool = False, root: bool = True
) -> Iterator[FieldError]:
    """Yield the errors of each schema by itself; `no_default` is the reason why defaults are forbidden, if they are."""
    yield from _check_types(schema, path)
    if schema.get("default") is not None and no_default:
        yield forbidden(f"{path}.default", f"must not be set {no_default}")
    if meta and schema.get(EMBEDDED_RESOURCE):
        yield forbidden(f"{path}.{EMBEDDED_RESOURCE}", "must not be used inside of resource meta")
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if properties and others is not None and others is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(others, dict):
        why = "inside additionalProperties applying to object metadata" if meta else no_default
        yield from check_openapi_schema(others, f"{path}.additionalProperties", no_default=why, meta=meta, root=False)
    for name, each in properties.items():
        special = (root or bool(schema.get(EMBEDDED_RESOURCE))) and name in TYPE_AND_OBJECT_META
        why = f"in top-level {name}" if special and root else no_default
        here = f"{path}.properties[{name}]"
        yield from check_openapi_schema(each, here, no_default=why, meta=meta or special, root=False)
    for where, each in _nested_schemas(schema, path):
        yield from check_openapi_schema(each, where, no_default=no_default, meta=meta, root=False)
    if isinstance(items := schema.get("items"), dict):
        yield from check_openapi_schema(items, f"{path}.items", no_default=no_default, meta=meta, root=False)
    yield from _check_extensions(schema, path)
    yield from _check_rule_fields(schema, path)


def _check_types(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    yield from (
        forbidden(f"{path}.{name}", f"{name} is not supported") for name in _UNSUPPORTED_FIELDS if schema.get(name)
    )
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)


def _nested_schemas(schema: JsonSchemaProps, path: str) -> Iterator[tuple[str, JsonSchemaProps]]:
    if isinstance(schema.get("not"), dict):
        yield f"{path}.not", schema["not"]
    for name in _NESTED_LISTS:
        yield from ((f"{path}.{name}[{index}]", each) for index, each in enumerate(schema.get(name) or ()))


def _check_extensions(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if schema.get(PRESERVE_UNKNOWN_FIELDS) is False:
        yield invalid(f"{path}.{PRESERVE_UNKNOWN_FIELDS}", value=False, detail="must be true or undefined")
    map_type, list_type = schema.get(MAP_TYPE), schema.get(list_types.LIST_TYPE)
    if map_type is not None and kind != "object":
        yield _wrong_type(path, kind, "must be object if x-kubernetes-map-type is specified")
    if map_type not in (None, "atomic", "granular"):
        yield not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))
    if list_type is not None and kind != "array":
        yield _wrong_type(path, kind, "must be array if x-kubernetes-list-type is specified")
    if list_type not in (None, "atomic", "set", "map"):
        yield not_supported(f"{path}.{list_types.LIST_TYPE}", list_type, ("atomic", "set", "map"))
    keys = schema.get(list_types.LIST_MAP_KEYS) or []
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{list_types.LIST_TYPE}"
        yield required(where, detail) if list_type is None else invalid(where, list_type, detail)
    items = schema.get("items")
    if list_type == "set" and kind == "array" and isinstance(items, dict):
        yield from _check_set_items(items, f"{path}.items")
    if list_type == "map":
        yield from _check_list_map(schema, keys, path)
    if list_type in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")


def _wrong_type(path: str, kind: str, detail: str) -> FieldError:
    return invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)


def _check_set_items(items: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(list_types.LIST_TYPE, "atomic") != "atomic":
        yield invalid(f"{path}.{list_types.LIST_TYPE}", items.get(list_types.LIST_TYPE), detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{MAP_TYPE}", items.get(list_types.LIST_TYPE), detail)


def _check_list_map(schema: JsonSchemaProps, keys: list[str], path: str) -> Iterator[FieldError]:
    if not keys:
        yield required(f"{path}.{list_types.LIST_MAP_KEYS}", "must not be empty if x-kubernetes-list-type is map")
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
            yield invalid(f"{path}.{list_types.LIST_MAP_KEYS}", keys, "entries must all be names of item properties")
        elif field.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in seen:
            yield invalid(f"{path}.{list_types.LIST_MAP_KEYS}", keys, "must not contain duplicate entries")
        seen.add(key)
        yield from _check_list_map_key(
            field, f"{path}.items.properties[{key}]", needed=key in (items.get("required") or ())
        )


def _check_list_map_key(field: JsonSchemaProps | None, path: str, *, needed: bool) -> Iterator[FieldError]:
    if field is None:
        return
    about = "this property is in x-kubernetes-list-map-keys, so it"
    if not needed and field.get("default") is None:
        yield required(f"{path}.default", f"{about} must have a default or be a required property")
    if field.get("nullable"):
        yield forbidden(f"{path}.nullable", f"{about} cannot be nullable")


def _check_rule_fields(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    """Yield the errors of rules, except for their expressions."""
    for index, rule in enumerate(schema.get(validation_rules.VALIDATIONS) or ()):
        where = f"{path}.{validation_rules.VALIDATIONS}[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _has_line_break(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _has_line_break(text) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") and rule["reason"] not in _RULE_REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _RULE_REASONS)
        if field := rule.get("fieldPath"):
            yield from field_errors.invalid_for_each(f"{where}.fieldPath", field, _field_path_errors(field, schema))


def _field_path_errors(field: str, schema: JsonSchemaProps) -> Iterator[str]:
    if not field.strip():
        yield "must be non-empty if specified"
    if _has_line_break(field):
        yield "must not contain line breaks"
    if not _is_field_path(field, schema):
        yield "must be a valid path"


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _is_field_path(path: str, schema: JsonSchemaProps) -> bool:
    """Return whether a rule's fieldPath, such as ``.a['b-c'].d``, refers to a field."""
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
        known, place = pruning.field_schema(place, name)
        if not known:
            return False
    return True


def check_structural(schema: JsonSchemaProps, path: str, *, level: str) -> Iterator[FieldError]:
    """Yield the schemas that are not structural; `level` is root, item or field."""
    kind = schema.get("type") or ""
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items := schema.get("items"), dict):
        yield from check_structural(items, f"{path}.items", level="item")
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in properties.items():
        yield from check_structural(each, f"{path}.properties[{name}]", level="field")
    if others is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(others, dict):
        yield from check_structural(others, f"{path}.additionalProperties", level="field")
    yield from _check_exclusive_extensions(schema, path)
    yield from _check_nested_value_validations(schema, path, skip=_int_or_string_list(schema))
    yield from _check_own_type(schema, path, kind, level)
    yield from _check_metadata(schema, path, level)


def _check_exclusive_extensions(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    detail = "must be false if x-kubernetes-int-or-string is true"
    for mark in (PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE):
        if schema.get(INT_OR_STRING) and schema.get(mark):
            yield invalid(f"{path}.{mark}", value=True, detail=detail)


def _int_or_string_list(schema: JsonSchemaProps) -> str:
    """Return the list that declares an int-or-string, the only shape permitted inside of anyOf."""
    if schema.get("anyOf") == _INT_OR_STRING_TYPES:
        return "anyOf"
    every = schema.get("allOf") or [{}]
    return "allOf" if every[0].get("anyOf") == _INT_OR_STRING_TYPES else ""


def _check_own_type(schema: JsonSchemaProps, path: str, kind: str, level: str) -> Iterator[FieldError]:
    where = f"{path}.type"
    if schema.get(EMBEDDED_RESOURCE) and kind != "object":
        yield _wrong_type(path, kind, "must be object if x-kubernetes-embedded-resource is true")
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE_UNKNOWN_FIELDS):
        places = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield required(where, f"must not be empty {places[level]}")
    if schema.get(EMBEDDED_RESOURCE) and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if level == "root" and kind not in ("", "object"):
        yield invalid(where, kind, "must be object at the root")


def _check_metadata(schema: JsonSchemaProps, path: str, level: str) -> Iterator[FieldError]:
    """Yield the errors of schemas for kind, apiVersion and metadata, which all objects have."""
    properties = schema.get("properties") or {}
    special = level == "root" or bool(schema.get(EMBEDDED_RESOURCE))
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
    if schema.get(EMBEDDED_RESOURCE) and not schema.get(PRESERVE_UNKNOWN_FIELDS) and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)


def _check_nested_value_validations(schema: JsonSchemaProps, path: str, *, skip: str = "") -> Iterator[FieldError]:
    """Yield the keywords of nested schemas that do not restrict values."""
    for where, each in _nested_schemas(schema, path):
        inside = where.removeprefix(f"{path}.")
        if skip == "anyOf" and inside.startswith("anyOf["):
            continue
        yield from _check_value_validation(
            each, where, skip="anyOf" if skip == "allOf" and inside == "allOf[0]" else ""
        )
    if (pattern := schema.get("pattern")) and (error := Pattern.of(pattern).error):
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield invalid(f"{path}.pattern", pattern, detail)


_MUST_BE_EMPTY: Final = ("type", "title", "description", list_types.LIST_MAP_KEYS, validation_rules.VALIDATIONS)
_MUST_BE_UNDEFINED: Final = ("additionalProperties", "default", list_types.LIST_TYPE, MAP_TYPE)
_MUST_BE_FALSE: Final = ("nullable", PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE, INT_OR_STRING)


def _check_value_validation(schema: JsonSchemaProps, path: str, *, skip: str = "") -> Iterator[FieldError]:
    yield from _check_nested_value_validations(schema, path, skip=skip)
    if isinstance(items := schema.get("items"), dict):
        yield from _check_value_validation(items, f"{path}.items")
    for name, each in (schema.get("properties") or {}).items():
        yield from _check_value_validation(each, f"{path}.properties[{name}]")
    for names, wanted in ((_MUST_BE_EMPTY, "empty"), (_MUST_BE_UNDEFINED, "undefined"), (_MUST_BE_FALSE, "false")):
        for name in names:
            if schema.get(name) if wanted != "undefined" else schema.get(name) is not None:
                yield forbidden(f"{path}.{name}", f"must be {wanted} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _check_completeness(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    """Yield fields that nested schemas restrict but the schema does not declare; root only, as upstream."""
    for where, each in _nested_schemas(schema, path):
        yield from _check_declared(each, schema, where, path)


def _check_declared(nested: JsonSchemaProps, schema: JsonSchemaProps, where: str, path: str) -> Iterator[FieldError]:
    for inner, each in _nested_schemas(nested, where):
        yield from _check_declared(each, schema, inner, path)
    if isinstance(items := nested.get("items"), dict):
        if isinstance(schema.get("items"), dict):
            yield from _check_declared(items, schema["items"], f"{where}.items", f"{path}.items")
        else:
            yield required(f"{path}.items", f"because it is defined in {where}.items")
    own, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in (nested.get("properties") or {}).items():
        if name in own:
            yield from _check_declared(each, own[name], f"{where}.properties[{name}]", f"{path}.properties[{name}]")
        elif not isinstance(others, dict):
            yield required(f"{path}.properties[{name}]", f"because it is defined in {where}.properties[{name}]")


def check_defaults(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    """Yield the defaults that are invalid for their schemas."""
    default = schema.get("default")
    if default is not None:
        where = f"{path}.default"
        kept = deepcopy({"v": default})
        pruning.prune(kept, {"properties": {"v": schema}})
        if kept["v"] != default:
            yield invalid(where, default, "must not have unknown fields")
        for cause in schema_validation.validate_value(default, schema):
            inside = cause.field.removeprefix(".")
            yield FieldError(cause.fault, child_path(where, inside) if inside else where, cause.message)
    for name, each in (schema.get("properties") or {}).items():
        yield from check_defaults(each, f"{path}.properties[{name}]")
    if isinstance(items := schema.get("items"), dict):
        yield from check_defaults(items, f"{path}.items")


def check_validation_rules(
    schema: JsonSchemaProps, path: str, *, checker: RuleTypeChecker, lost: str = ""
) -> Iterator[FieldError]:
    """Yield the rules that do not compile; below the path `lost`, old values cannot be correlated."""
    for index, spec in enumerate(schema.get(validation_rules.VALIDATIONS) or ()):
        where = f"{path}.{validation_rules.VALIDATIONS}[{index}]"
        try:
            if wrong := checker.wrong(spec["rule"], schema, optional=bool(spec.get("optionalOldSelf"))):
                yield invalid(f"{where}.rule", _rule_as_go(spec), f"compilation failed: {wrong}")
                continue
            rule = validation_rules.compile_rule(spec, schema)
        except validation_rules.RuleCompilationError as wrong:
            yield invalid(f"{where}.{wrong.part}", _rule_as_go(spec), wrong.detail)
            continue
        if rule.is_transition_rule and lost:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
            yield invalid(f"{where}.rule", spec["rule"], detail)
        elif not rule.is_transition_rule and spec.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", spec["optionalOldSelf"], detail)
    below = lost or (path if schema.get(MAP_TYPE) == "atomic" else "")
    for name, each in (schema.get("properties") or {}).items():
        yield from check_validation_rules(each, f"{path}.properties[{name}]", checker=checker, lost=below)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from check_validation_rules(others, f"{path}.additionalProperties", checker=checker, lost=below)
    if isinstance(items := schema.get("items"), dict):
        known = schema.get(list_types.LIST_TYPE) == "map"
        yield from check_validation_rules(items, f"{path}.items", checker=checker, lost=lost or ("" if known else path))


def _rule_as_go(spec: JsonSchemaProps) -> JsonSchemaProps:
    """Return a rule as upstream prints it: with the Go names of its fields."""
    return {
        "Rule": spec["rule"],
        "Message": spec.get("message") or "",
        "MessageExpression": spec.get("messageExpression") or "",
        "Reason": spec.get("reason"),
        "FieldPath": spec.get("fieldPath") or "",
        "OptionalOldSelf": spec.get("optionalOldSelf"),
    }
