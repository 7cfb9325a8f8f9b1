"""Checks the types of a CustomResourceDefinition's fields before any validation rule reads the fields."""

from typing import Any

import msgspec

from localplane import status_errors
from localplane.objects import Object


class _Struct(msgspec.Struct, rename="camel"):
    """A struct of camelCase fields; a missing or null field is None."""


class _Rule(_Struct):
    rule: str | None = None
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


class _Schema(msgspec.Struct):
    """The typed fields of JSONSchemaProps; other fields are ignored or may have any type."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    description: str | None = None
    title: str | None = None
    nullable: bool | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    maximum: float | None = None
    minimum: float | None = None
    exclusiveMaximum: bool | None = None  # noqa: N815 - as in JSON
    exclusiveMinimum: bool | None = None  # noqa: N815
    maxLength: int | None = None  # noqa: N815
    minLength: int | None = None  # noqa: N815
    maxItems: int | None = None  # noqa: N815
    minItems: int | None = None  # noqa: N815
    maxProperties: int | None = None  # noqa: N815
    minProperties: int | None = None  # noqa: N815
    uniqueItems: bool | None = None  # noqa: N815
    multipleOf: float | None = None  # noqa: N815
    items: "_Schema | list[_Schema] | None" = None
    properties: "dict[str, _Schema] | None" = None
    additionalProperties: "_Schema | bool | None" = None  # noqa: N815
    allOf: "list[_Schema] | None" = None  # noqa: N815
    anyOf: "list[_Schema] | None" = None  # noqa: N815
    oneOf: "list[_Schema] | None" = None  # noqa: N815
    not_: "_Schema | None" = msgspec.field(name="not", default=None)
    preserve: bool | None = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=None)
    embedded: bool | None = msgspec.field(name="x-kubernetes-embedded-resource", default=None)
    int_or_string: bool | None = msgspec.field(name="x-kubernetes-int-or-string", default=None)
    list_type: str | None = msgspec.field(name="x-kubernetes-list-type", default=None)
    map_type: str | None = msgspec.field(name="x-kubernetes-map-type", default=None)
    list_keys: list[str] | None = msgspec.field(name="x-kubernetes-list-map-keys", default=None)
    rules: list[_Rule] | None = msgspec.field(name="x-kubernetes-validations", default=None)


class _Validation(_Struct):
    schema: _Schema | None = msgspec.field(name="openAPIV3Schema", default=None)


class _Scale(_Struct):
    spec_replicas_path: str | None = None
    status_replicas_path: str | None = None
    label_selector_path: str | None = None


class _Subresources(_Struct):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _PrinterColumn(_Struct):
    name: str | None = None
    type: str | None = None
    json_path: str | None = None
    format: str | None = None
    description: str | None = None
    priority: int | None = None


class _SelectableField(_Struct):
    json_path: str | None = None


class _Version(_Struct):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema: _Validation | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_PrinterColumn] | None = None
    selectable_fields: list[_SelectableField] | None = None


class _Names(_Struct):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Conversion(_Struct):
    strategy: str | None = None
    webhook: dict[str, Any] | None = None


class _Spec(_Struct):
    group: str | None = None
    scope: str | None = None
    names: _Names | None = None
    versions: list[_Version] | None = None
    conversion: _Conversion | None = None
    preserve_unknown_fields: bool | None = None


class _Condition(_Struct):
    type: str
    status: str


class _Status(_Struct):
    conditions: list[_Condition] | None = None
    accepted_names: _Names | None = None
    stored_versions: list[str] | None = None


class _Definition(_Struct):
    spec: _Spec | None = None
    status: _Status | None = None


def check_definition_types(definition: Object) -> None:
    """Check that all fields have their types; raises `StatusError` 400."""
    try:
        msgspec.convert(definition, _Definition)
    except (msgspec.ValidationError, RecursionError) as error:
        about = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition'
        raise status_errors.bad_request(f"{about}: {error}") from error
