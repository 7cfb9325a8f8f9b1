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
    for document in documents:
        info = document["info"]
        paths |= {path: _path(item) for path, item in document["paths"].items()}
        for name, schema in document["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _schema(schema: Mapping[str, Any]) -> Object:
    """Return a schema converted to v2."""
    target = _referenced_definition(schema)
    if target:
        text = {"description": schema["description"]} if "description" in schema else {}
        return {"$ref": V2_REF_PREFIX + target, **text}
    converted = {name: schema[name] for name in _COPIED_KEYWORDS if name in schema}
    converted |= {name: value for name, value in schema.items() if name.startswith("x-kubernetes-")}
    types = [alternative.get("type") for alternative in schema.get("oneOf") or () if len(alternative) == 1]
    if schema.get(_INT_OR_STRING) or schema.get("format") == "int-or-string":
        return converted | {"type": "string", "format": "int-or-string"}
    if "string" in types:  # quantities: a number is accepted where v2 says string
        return converted | {"type": "string"}
    if schema.get("nullable"):  # v2 has no null
        converted.pop("type", None)
        return converted
    if schema.get(_PRESERVE_UNKNOWN_FIELDS):
        return converted
    if "properties" in schema:
        converted["properties"] = {name: _schema(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        converted["items"] = _schema(schema["items"])
    values = schema.get("additionalProperties")
    if values is not None:
        converted["additionalProperties"] = _schema(values) if isinstance(values, dict) else values
    return converted


def _referenced_definition(schema: Mapping[str, Any]) -> str:
    """Return the name of the definition that a schema refers to; empty if the schema is no reference."""
    parts = schema.get("allOf") or []
    single = parts[0] if len(parts) == 1 else schema
    return str(single.get("$ref", "")).removeprefix(REF_PREFIX)


def _path(item: Mapping[str, Any]) -> Object:
    converted: Object = {verb: _operation(item[verb]) for verb in _VERBS if verb in item}
    if "parameters" in item:
        converted["parameters"] = list(_parameters(item["parameters"]))
    return converted


def _operation(operation: Mapping[str, Any]) -> Object:
    converted: Object = {"responses": {code: _response(response) for code, response in operation["responses"].items()}}
    if "parameters" in operation:
        converted["parameters"] = list(_parameters(operation["parameters"]))
    return converted | {name: value for name, value in operation.items() if name.startswith("x-kubernetes-")}


def _response(response: Mapping[str, Any]) -> Object:
    converted: Object = {"description": response["description"]}
    for content in response.get("content", {}).values():
        converted["schema"] = _schema(content["schema"])
    return converted


def _parameters(parameters: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """Yield parameters with the schema's keywords next to the name, as v2 has them."""
    for parameter in parameters:
        yield {name: value for name, value in parameter.items() if name != "schema"} | parameter["schema"]
