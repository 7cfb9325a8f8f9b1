"""Makes a `Kind` with its strategy for each served version of a CustomResourceDefinition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra.model import jsonpath
from dra.model.releases import Traits
from localplane.crds import defaults, embedded_resources, list_types, pruning, schema_validation, validation_rules
from localplane.crds.pruning import JsonSchemaProps
from localplane.crds.schema_errors import with_root_path
from localplane.kinds import field_errors
from localplane.kinds.kind import Kind, PrinterColumn, Strategy
from localplane.kinds.scale import Scale, nested_field
from localplane.kinds.subresource import STATUS, Subresource
from localplane.objects import Object
from localplane.schemas import openapi_reader
from localplane.schemas.builtin_schemas import OBJECT_META, Dialect, load_builtin_schemas
from localplane.schemas.schema import Schema
from localplane.status_errors import FieldError

NAME_COLUMN: Final = PrinterColumn(
    name="Name",
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily intended "
    "for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """One version of a CustomResourceDefinition."""

    definition: Object
    spec: JsonSchemaProps

    @property
    def name(self) -> str:
        """Return the name of the version: ``v1alpha1``."""
        name: str = self.spec["name"]
        return name

    @property
    def schema(self) -> JsonSchemaProps:
        """Return the schema of the version's objects."""
        schema: JsonSchemaProps = (self.spec.get("schema") or {}).get("openAPIV3Schema") or {}
        return schema

    @property
    def subresources(self) -> JsonSchemaProps:
        """Return the subresources of the version's objects."""
        subresources: JsonSchemaProps = self.spec.get("subresources") or {}
        return subresources

    @property
    def scale(self) -> Scale | None:
        """Return the scale subresource of the version's objects."""
        paths = self.subresources.get("scale")
        if not paths:
            return None
        return Scale(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or "")


class CustomResourceStrategy(Strategy):
    """The strategy of one version of a custom kind."""

    def __init__(self, version: DefinitionVersion, *, kind: str, api_version: str, traits: Traits) -> None:
        """Create the strategy; `api_version` is that of the storage version."""
        self._typed_shortages = traits.typed_shortages
        self.schema = version.schema
        self._status = version.subresources.get("status") is not None
        self._scale = version.scale
        self._selectable = [field["jsonPath"] for field in version.spec.get("selectableFields") or ()]
        self._rules = validation_rules.compile_rules(self.schema)
        self._meta = {"kind": kind, "apiVersion": api_version}  # a strategy gets objects in the storage version

    def default(self, obj: Object) -> None:
        """Prune fields that the schema does not declare, then set the schema's defaults."""
        pruning.drop_nulls(obj, self.schema)
        pruning.prune(obj, self.schema)
        defaults.apply_defaults(obj, self.schema)

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the status if there is a status subresource; an absent status is not shown."""
        if self._status:
            obj.pop("status", None)

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Keep the old status if there is a status subresource."""
        if self._status:
            super().prepare_for_update(new, old)

    def validate(self, obj: Object) -> list[FieldError]:
        """Validate types and bounds, embedded objects and list entries; then CEL rules if the shape permits them."""
        if errors := self._check_type_meta(obj):
            return errors
        causes = self._validate_value(obj, self.schema)
        causes += self._check_scale(obj)
        causes += [
            *embedded_resources.check_embedded_resources(obj, self.schema),
            *list_types.check_list_types(obj, self.schema),
        ]
        return with_root_path(self._with_rule_errors(causes, obj, schema_validation.NO_OLD_VALUE))

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Validate the changed parts; unchanged parts may stay invalid (ratcheting)."""
        if errors := self._check_type_meta(new):
            return errors
        if self._status and _without_status(new) == _without_status(old):
            causes = self._check_status(new, old)
        else:
            causes = self._validate_value(new, self.schema, old=old)
        causes += self._check_scale(new)
        causes += embedded_resources.check_embedded_resources(new, self.schema)
        if not list(list_types.check_list_types(old, self.schema)):
            causes += list_types.check_list_types(new, self.schema)
        return with_root_path(self._with_rule_errors(causes, new, old))

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields of an object."""
        return {path.removeprefix("."): _field_text(nested_field(obj, path)) for path in self._selectable}

    def _check_type_meta(self, obj: Object) -> list[FieldError]:
        errors = ((name, obj.get(name, ""), wanted) for name, wanted in self._meta.items() if obj.get(name) != wanted)
        return [field_errors.invalid(name, given, f"must be {wanted}") for name, given, wanted in errors]

    def _check_status(self, new: Object, old: Object) -> list[FieldError]:
        schema = (self.schema.get("properties") or {}).get("status")
        if schema is None or "status" not in new:
            return []
        before = old.get("status", schema_validation.NO_OLD_VALUE)
        return self._validate_value(new["status"], schema, old=before, root_path="status")

    def _validate_value(
        self,
        value: object,
        schema: JsonSchemaProps,
        *,
        old: object = schema_validation.NO_OLD_VALUE,
        root_path: str = "",
    ) -> list[FieldError]:
        return schema_validation.validate_value(
            value, schema, old=old, root_path=root_path, typed_shortages=self._typed_shortages
        )

    def _check_scale(self, obj: Object) -> list[FieldError]:
        return self._scale.check_replicas(obj) if self._scale is not None else []

    def _with_rule_errors(self, causes: list[FieldError], obj: Object, old: object) -> list[FieldError]:
        if not self._rules:
            return causes
        if any(cause.type in validation_rules.BLOCKING_ERROR_TYPES for cause in causes):
            return [*causes, validation_rules.RULES_NOT_CHECKED]
        return [*causes, *validation_rules.check_rules(obj, self._rules, old=old)]


def custom_kinds(definition: Object, traits: Traits) -> list[Kind]:
    """Return the kinds of an established definition, one for each served version."""
    return [
        _custom_kind(definition, DefinitionVersion(definition, version), traits)
        for version in definition["spec"]["versions"]
        if version.get("served")
    ]


def _custom_kind(definition: Object, version: DefinitionVersion, traits: Traits) -> Kind:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts: list[Subresource] = []
    if version.subresources.get("status") is not None:
        parts.append(STATUS)
    if version.scale is not None:
        parts.append(version.scale)
    return Kind(
        group=spec["group"],
        version=version.name,
        plural=names["plural"],
        name=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(parts),
        strategy=CustomResourceStrategy(
            version, kind=names["kind"], api_version=f"{spec['group']}/{_storage_version(spec)}", traits=traits
        ),
        columns=_printer_columns(version),
        singular_name=names.get("singular", ""),
        list_name=names.get("listKind", ""),
        schema=_openapi_schema(version.schema, (spec["group"], version.name, names["kind"])),
        converter=_converter(definition, version),
        is_custom=True,
    )


class NopConverter:
    """Converts between the storage version and another one by the strategy None: only the apiVersion changes.

    An object that was stored before its schema got a default is shown with the default.
    """

    def __init__(self, *, shown: str, stored: str, schema: JsonSchemaProps) -> None:
        self._shown = shown
        self._stored = stored
        self._schema = schema

    def from_storage(self, obj: Object) -> Object:
        """Set the shown apiVersion and the defaults of its current schema."""
        obj["apiVersion"] = self._shown
        defaults.apply_defaults(obj, self._schema)
        return obj

    def to_storage(self, obj: Object) -> Object:
        """Set the apiVersion of the storage version."""
        obj["apiVersion"] = self._stored
        return obj


def _storage_version(spec: JsonSchemaProps) -> str:
    """Return the name of the storage version."""
    name: str = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return name


def _converter(definition: Object, version: DefinitionVersion) -> NopConverter | None:
    stored = _storage_version(definition["spec"])
    if stored == version.name and not defaults.has_defaults(version.schema):
        return None
    group = definition["spec"]["group"]
    return NopConverter(shown=f"{group}/{version.name}", stored=f"{group}/{stored}", schema=version.schema)


def _openapi_schema(schema: JsonSchemaProps, kind: tuple[str, str, str]) -> Schema:
    """Return the schema for strict decoding, server-side apply and OpenAPI."""
    return openapi_reader.custom_resource_schema(
        schema, metadata=load_builtin_schemas(Dialect.STOCK).definition(OBJECT_META), kind=kind
    )


def _printer_columns(version: DefinitionVersion) -> tuple[PrinterColumn, ...]:
    written = version.spec.get("additionalPrinterColumns") or ()
    try:
        for column in written:
            jsonpath.parse_path(column["jsonPath"])
    except jsonpath.InvalidJsonPathError:  # as upstream: the default columns
        return ()
    if not written:
        return ()
    return (NAME_COLUMN, *(_printer_column(column) for column in written))


def _printer_column(column: JsonSchemaProps) -> PrinterColumn:
    path = column["jsonPath"]
    return PrinterColumn(
        name=column["name"],
        type=column["type"],
        format=column.get("format", ""),
        description=column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        priority=column.get("priority", 0),
        path=path,
    )


def _without_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("status", "metadata")}


def _field_text(value: Any) -> str:  # noqa: ANN401 - whatever the field holds
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
