"""Reads schemas from OpenAPI: from the definitions of built-in kinds, and from CustomResourceDefinitions."""

from collections.abc import Mapping
from typing import Any, Final

from localplane.objects import Object
from localplane.schemas.schema import ElementRelationship, Omission, Schema

REF_PREFIX: Final = "#/components/schemas/"

_CUSTOM_FORMATS: Final = {"io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity"}
"""Formats of types with their own JSON encoding that OpenAPI does not mention."""


class OpenApiReader:
    """Reads schemas that refer to definitions; each definition is read once, on first use."""

    def __init__(self, definitions: Mapping[str, Object]) -> None:
        self._definitions: Final = definitions
        self._known: Final[dict[str, Schema]] = {}

    def definition(self, name: str) -> Schema:
        """Return the schema of a definition; raises KeyError if there is none of that name."""
        schema = self._known.get(name)
        if schema is None:
            fields: dict[str, Schema] = {}
            # Registered before its fields are read, because the fields may refer to the definition itself.
            schema = self._known[name] = self._schema(self._definitions[name], fields=fields, definition=name)
            self._fill(fields, self._definitions[name])
        return schema

    def read(self, source: Object) -> Schema:
        """Return an inline schema, or a referenced definition with the keywords next to the reference."""
        if reference := _referenced_definition(source):
            target = self.definition(reference)
            return _field_schema(target, source)
        fields: dict[str, Schema] = {}
        schema = self._schema(source, fields=fields)
        self._fill(fields, source)
        return schema

    def _fill(self, fields: dict[str, Schema], source: Object) -> None:
        fields.update(
            (name, self.read(property_schema)) for name, property_schema in source.get("properties", {}).items()
        )

    def _schema(self, source: Object, *, fields: Mapping[str, Schema], definition: str = "") -> Schema:
        values, items = source.get("additionalProperties"), source.get("items")
        kind = source.get("type", "")
        return Schema(
            type="" if source.get("x-kubernetes-int-or-string") else kind,
            format=_format(source, definition),
            fields=fields,
            values=self.read(values) if isinstance(values, dict) else _ANY_SCHEMA if values else None,
            items=self.read(items) if isinstance(items, dict) else None,
            preserve=self._preserves(source),
            embedded=source.get("x-kubernetes-embedded-resource", False),
            required=tuple(source.get("required", ())),
            nullable=source.get("nullable", False),
            enum=tuple(source.get("enum", ())),
            default=source.get("default"),
            relationship=_element_relationship(source),
            list_map_keys=tuple(source.get("x-kubernetes-list-map-keys", ())),
            merge_key=source.get("x-kubernetes-patch-merge-key", ""),
            patch_strategies=_patch_strategies(source),
            definition=definition,
            kinds=tuple(
                (k["group"], k["version"], k["kind"]) for k in source.get("x-kubernetes-group-version-kind", ())
            ),
            **_go_attributes(source),
        )

    def _preserves(self, source: Object) -> bool:
        """Return whether unknown fields are kept.

        An object without declared structure is raw JSON in a built-in (Go) type, but empty in a structural schema.
        """
        said = source.get("x-kubernetes-preserve-unknown-fields")
        if said is not None or not self._definitions:
            return bool(said)
        return (
            not source.keys() & {"properties", "additionalProperties", "oneOf"}
            and source.get("type", "object") == "object"
        )


_ANY_SCHEMA: Final = Schema(preserve=True)


def custom_resource_schema(schema: Object, *, metadata: Schema, kind: tuple[str, str, str]) -> Schema:
    """Return the schema of a custom kind's objects; `kind` is group, version and kind."""
    reader = OpenApiReader({})
    inner = reader.read(schema)
    text = Schema(type="string")
    fields = {**inner.fields, "apiVersion": text, "kind": text, "metadata": metadata}
    return Schema(
        type="object",
        fields=fields,
        values=inner.values,
        preserve=inner.preserve,
        required=inner.required,
        default=inner.default,
        relationship=ElementRelationship.GRANULAR,
        kinds=(kind,),
    )


def _referenced_definition(source: Object) -> str:
    reference = source.get("$ref") or next((part.get("$ref") for part in source.get("allOf", ()) if "$ref" in part), "")
    return str(reference).removeprefix(REF_PREFIX)


def _field_schema(target: Schema, source: Object) -> Schema:
    """Return the schema of a definition, overridden by the keywords of the field that refers to the definition."""
    if not source.keys() - {"$ref", "allOf", "description"}:
        return target
    return Schema(
        type=target.type,
        format=target.format,
        fields=target.fields,
        values=target.values,
        items=target.items,
        preserve=target.preserve,
        embedded=target.embedded,
        required=target.required,
        nullable=target.nullable,
        enum=target.enum,
        default=source.get("default", target.default),
        relationship=_element_relationship(source) if "x-kubernetes-map-type" in source else target.relationship,
        list_map_keys=target.list_map_keys,
        merge_key=source.get("x-kubernetes-patch-merge-key", target.merge_key),
        patch_strategies=_patch_strategies(source) or target.patch_strategies,
        definition=target.definition,
        kinds=target.kinds,
        **_go_attributes(source),
    )


def _format(source: Object, definition: str) -> str:
    if source.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return _CUSTOM_FORMATS.get(definition) or str(source.get("format", ""))


def _element_relationship(source: Object) -> ElementRelationship:
    default = ElementRelationship.ATOMIC if source.get("type") == "array" else ElementRelationship.GRANULAR
    return ElementRelationship(source.get("x-kubernetes-list-type") or source.get("x-kubernetes-map-type") or default)


def _patch_strategies(source: Object) -> frozenset[str]:
    return frozenset(filter(None, source.get("x-kubernetes-patch-strategy", "").split(",")))


def _go_attributes(source: Object) -> dict[str, Any]:
    if "x-go" not in source:
        return {}
    kind, omission, *embedded_struct = source["x-go"].split(" ")
    return {
        "go_type": kind,
        "omission": Omission(omission),
        "embedded_struct": embedded_struct[0] if embedded_struct else "",
    }
