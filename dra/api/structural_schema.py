"""Structural schemas of custom resources, generated from the pydantic models that describe the kinds.

References are resolved, optional fields are not nullable, and each path may have a default and additions, such as CEL
rules.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

SchemaNode = dict[str, Any]

PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
VALIDATIONS: Final = "x-kubernetes-validations"
DURATION_PATTERN: Final = "^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|ms|s|m|h))+$|^[+]?0$"
"""A duration of Go that is not negative, as a regular expression."""

MAX_ENTRIES: Final = 1024
"""Maximum number of entries of a list or map in a spec, unless the field has a limit of its own."""

MAX_TEXT_LENGTH: Final = 1024
"""Maximum number of characters of a text in a spec, unless the field has a limit of its own."""

_KEPT_KEYWORDS: Final = (
    *("type", "format", "enum", "description", "required", "minItems", "maxItems", "maxLength"),
    *(PRESERVE_UNKNOWN_FIELDS, "x-kubernetes-int-or-string"),
)


def validation_rule(rule: str, message: str) -> SchemaNode:
    """Return one CEL rule; the message begins with the error, since the API server puts the field's path before it."""
    return {"rule": rule, "message": message}


def printer_column(name: str, path: str, text: str = "", *, kind: str = "string", wide: bool = False) -> SchemaNode:
    """Return a column of ``kubectl get``; a `wide` column needs ``-o wide``."""
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"description": text} if text else {}) | ({"priority": 1} if wide else {})


def described_schema(model: type[BaseModel], *, overlays: Mapping[str, SchemaNode]) -> SchemaNode:
    """Return the structural schema of a model that is part of a kind, without defaults; paths begin at the model."""
    described = _json_schema(model)
    return _Generator(described.get("$defs", {}), {}, overlays).structural(described, "")


def openapi_schema(
    model: type[BaseModel], *, defaults: Mapping[str, Any], overlays: Mapping[str, SchemaNode]
) -> SchemaNode:
    """Return the structural schema of a kind.

    `defaults` and `overlays` map paths such as ``spec.owners[].object`` to the default and to additions; an addition of
    None removes a keyword.
    """
    described = _json_schema(model)
    schema = _Generator(described.get("$defs", {}), defaults, overlays).structural(described, "")
    schema["properties"]["metadata"] = {"type": "object"}
    schema["properties"]["spec"] = _bounded(schema["properties"]["spec"])
    return {
        **schema,
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, **schema["properties"]},
    }


@cache
def _json_schema(model: type[BaseModel]) -> SchemaNode:
    """Return what pydantic says of a model, to be read only: it takes 50 ms for a kind."""
    return model.model_json_schema(by_alias=True)


class _Generator:
    """One model's definitions, defaults and additions, by path."""

    def __init__(self, named: SchemaNode, defaults: Mapping[str, Any], overlays: Mapping[str, SchemaNode]) -> None:
        self._named = named
        self._defaults = defaults
        self._overlays = overlays

    def structural(self, given: SchemaNode, path: str) -> SchemaNode:
        if "$ref" in given:
            rest = {key: value for key, value in given.items() if key != "$ref"}
            given = self._named[given["$ref"].rpartition("/")[2]] | rest
        if "anyOf" in given:  # optional: absent, not null
            (wanted,) = (option for option in given["anyOf"] if option.get("type") != "null")
            outer = {key: value for key, value in given.items() if key not in ("anyOf", "default")}
            return self.structural(wanted | outer, path)
        schema: SchemaNode = {key: given[key] for key in _KEPT_KEYWORDS if key in given}
        if path in self._defaults:
            schema["default"] = self._defaults[path]
        if given.get("properties"):  # an API server drops an empty map, and an apply would differ from the stored kind
            schema["properties"] = {
                name: self.structural(child, f"{path}.{name}" if path else name)
                for name, child in given["properties"].items()
            }
        elif isinstance(others := given.get("additionalProperties"), dict):
            schema["additionalProperties"] = self.structural(others, f"{path}{{}}")
        if "items" in given:
            schema["items"] = self.structural(given["items"], f"{path}[]")
        schema |= self._overlays.get(path, {})
        schema = {key: value for key, value in schema.items() if value is not None}
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].replace("`", "").split())
        return schema


def _bounded(node: SchemaNode) -> SchemaNode:
    """Return a node with a maximum for each list, map and text that has none, in all levels.

    Users write specs, and each program that watches the kind decodes them.
    """
    bounded = dict(node)
    kind = bounded.get("type")
    if kind == "array":
        bounded.setdefault("maxItems", MAX_ENTRIES)
    elif kind == "object" and (bounded.get("additionalProperties") or bounded.get(PRESERVE_UNKNOWN_FIELDS)):
        bounded.setdefault("maxProperties", MAX_ENTRIES)
    elif kind == "string" and "enum" not in bounded and "format" not in bounded:
        bounded.setdefault("maxLength", MAX_TEXT_LENGTH)
    if "items" in bounded:
        bounded["items"] = _bounded(bounded["items"])
    if "additionalProperties" in bounded:
        bounded["additionalProperties"] = _bounded(bounded["additionalProperties"])
    if "properties" in bounded:
        bounded["properties"] = {name: _bounded(child) for name, child in bounded["properties"].items()}
    return bounded


def cluster_scoped_definition(
    *, group: str, plural: str, kind: str, short_names: Sequence[str] = (), version: str, content: Mapping[str, Any]
) -> SchemaNode:
    """Return the CustomResourceDefinition of a cluster-scoped kind with one version, which is served and stored.

    `content` has the schema of the version, and its subresources and columns if there are any.
    """
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": names | ({"shortNames": list(short_names)} if short_names else {}),
            "versions": [{"name": version, "served": True, "storage": True, **content}],
        },
    }
