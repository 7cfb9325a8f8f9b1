"""Converts OpenAPI v3 documents to one OpenAPI v2 document, for clients that still request v2.

kubectl requests v2 when v3 is not sufficient: for a ``kind: List``, and for kinds that v3 does not contain. v2 can
express less: a reference has no sibling but a description, and a value of one of several types has no type. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from localplane.objects import Object
from localplane.schemas.openapi_reader import REF_PREFIX

V2_REF_PREFIX: Final = "#/definitions/"

_VERBS: Final = ("get", "put", "post", "delete", "patch")
_COPIED_KEYWORDS: Final = (
    *("description", "title", "type", "format", "pattern", "default", "enum", "required", "uniqueItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)
_PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def from_openapi_v3(documents: Iterable[Object]) -> Object:
    """Return one v2 document for all v3 documents."""
    definitions: Object = {}
    paths: Object = {}
    info: Object = {}
    for each in documents:
        info = each["info"]
        paths |= {path: _path(item) for path, item in each["paths"].items()}
        for name, schema in each["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _schema(schema: Mapping[str, Any]) -> Object:
    """Return a schema converted to v2."""
    target = _referenced_definition(schema)
    if target:
        text = {"description": schema["description"]} if "description" in schema else {}
        return {"$ref": V2_REF_PREFIX + target, **text}
    found = {name: schema[name] for name in _COPIED_KEYWORDS if name in schema}
    found |= {name: value for name, value in schema.items() if name.startswith("x-kubernetes-")}
    types = [each.get("type") for each in schema.get("oneOf") or () if len(each) == 1]
    if schema.get(_INT_OR_STRING) or schema.get("format") == "int-or-string":
        return found | {"type": "string", "format": "int-or-string"}
    if "string" in types:  # quantities: a number is accepted where v2 says string
        return found | {"type": "string"}
    if schema.get("nullable"):  # v2 has no null
        found.pop("type", None)
        return found
    if schema.get(_PRESERVE_UNKNOWN_FIELDS):
        return found
    if "properties" in schema:
        found["properties"] = {name: _schema(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        found["items"] = _schema(schema["items"])
    values = schema.get("additionalProperties")
    if values is not None:
        found["additionalProperties"] = _schema(values) if isinstance(values, dict) else values
    return found


def _referenced_definition(schema: Mapping[str, Any]) -> str:
    """Return the name of the definition that a schema refers to; empty if the schema is no reference."""
    parts = schema.get("allOf") or []
    single = parts[0] if len(parts) == 1 else schema
    return str(single.get("$ref", "")).removeprefix(REF_PREFIX)


def _path(item: Mapping[str, Any]) -> Object:
    found: Object = {verb: _operation(item[verb]) for verb in _VERBS if verb in item}
    if "parameters" in item:
        found["parameters"] = list(_parameters(item["parameters"]))
    return found


def _operation(operation: Mapping[str, Any]) -> Object:
    found: Object = {"responses": {code: _response(each) for code, each in operation["responses"].items()}}
    if "parameters" in operation:
        found["parameters"] = list(_parameters(operation["parameters"]))
    return found | {name: value for name, value in operation.items() if name.startswith("x-kubernetes-")}


def _response(response: Mapping[str, Any]) -> Object:
    found: Object = {"description": response["description"]}
    for content in response.get("content", {}).values():
        found["schema"] = _schema(content["schema"])
    return found


def _parameters(parameters: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """Yield parameters with the schema's keywords next to the name, as v2 has them."""
    for each in parameters:
        yield {name: value for name, value in each.items() if name != "schema"} | each["schema"]
