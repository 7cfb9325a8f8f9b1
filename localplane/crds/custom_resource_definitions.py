"""Defaults and validates CustomResourceDefinitions; `localplane.crds.custom_resources` makes the kinds they define.

A definition is deleted in two steps: deletion adds a finalizer, which is removed after the last custom object.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from dra.cel.patterns import Pattern
from dra.model import name_validation
from localplane import status_errors
from localplane.crds import validation_rules
from localplane.crds.pruning import JsonSchemaProps
from localplane.kinds import field_errors
from localplane.kinds.field_errors import invalid, required
from localplane.kinds.kind import Kind, PrinterColumn, Strategy
from localplane.objects import Object, metadata
from localplane.schemas import go_decoder
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas
from localplane.schemas.go_decoder import UnmarshalTypeError
from localplane.status_errors import FieldError

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of a deleted definition whose custom objects still exist."""

JSON_SCHEMA_PROPS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class CustomResourceDefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions: defaults, validation, deletion."""

    def default(self, obj: Object) -> None:
        """Set defaults of names, conversion and versions; raises `StatusError` 400 for a schema of a wrong type."""
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        kind = given.get("kind") or ""
        if not given.get("singular"):
            given["singular"] = kind.lower()
        if not given.get("listKind") and kind:
            given["listKind"] = f"{kind}List"
        if not spec.get("conversion"):
            spec["conversion"] = {"strategy": "None"}
        for version in spec.setdefault("versions", []):
            version.setdefault("served", False)
            version.setdefault("storage", False)
            try:
                _check_untyped_schemas((version.get("schema") or {}).get("openAPIV3Schema") or {})
            except UnmarshalTypeError as error:
                message = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition'
                raise status_errors.bad_request(f"{message}: {error}") from error
        if spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]

    def prepare_for_create(self, obj: Object) -> None:
        """Set the initial status, which names only the storage version."""
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj["spec"]),
        }

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Keep the status; add a new storage version to storedVersions."""
        super().prepare_for_update(new, old)
        had = (new.get("status") or {}).get("storedVersions") or []
        added = [name for name in _storage_versions(new["spec"]) if name not in had]
        if added:
            new["status"] = {**new["status"], "storedVersions": [*had, *added]}

    def validate(self, obj: Object) -> list[FieldError]:
        """Validate names, versions and schemas."""
        spec = obj["spec"]
        causes = []
        if metadata(obj)["name"] != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
            causes.append(invalid("metadata.name", metadata(obj)["name"], 'must be spec.names.plural+"."+spec.group'))
        return [*causes, *_validate_spec(spec)]

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Validate an update: all rules of a create, and the fields that are immutable."""
        if new["spec"] == old["spec"]:
            return []
        spec, before = new["spec"], old["spec"]
        causes = list(_validate_spec(spec))
        if is_established(old):
            causes += field_errors.validate_immutable("spec.scope", spec.get("scope"), before.get("scope"))
            causes += field_errors.validate_immutable(
                "spec.names.kind", spec["names"].get("kind"), before["names"].get("kind")
            )
        causes += field_errors.validate_immutable("spec.group", spec.get("group"), before.get("group"))
        causes += field_errors.validate_immutable(
            "spec.names.plural", spec["names"].get("plural"), before["names"].get("plural")
        )
        return causes

    def begin_deletion(self, obj: Object) -> None:
        """Add the finalizer that holds the definition until its custom objects are gone."""
        meta = metadata(obj)
        if CLEANUP_FINALIZER not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP_FINALIZER]
        set_condition(
            obj["status"],
            {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": meta["deletionTimestamp"],
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            },
        )

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the Created At cell: a timestamp, not an age, as upstream."""
        del now
        return {"Created At": metadata(obj).get("creationTimestamp")}

    def blocks_deletion(self, obj: Object) -> bool:
        """Return whether deletion must only mark the object: True until it is marked, then the finalizer decides."""
        return "deletionTimestamp" not in metadata(obj)


CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    name="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    strategy=CustomResourceDefinitionStrategy(),
    columns=(
        PrinterColumn(name="Name", format="name"),
        PrinterColumn(name="Created At", type="date"),
    ),
)


def is_established(definition: Object) -> bool:
    """Return whether the custom objects of a definition are served."""
    return condition_status(definition, "Established") == "True"


def condition_status(definition: Object, kind: str) -> str:
    """Return the status of a definition's condition, empty if there is none."""
    listed = (definition.get("status") or {}).get("conditions") or ()
    return next((condition["status"] for condition in listed if condition["type"] == kind), "")


def set_condition(status: JsonSchemaProps, new: JsonSchemaProps) -> None:
    """Set a condition in a status; lastTransitionTime changes only together with the condition's status."""
    listed = list(status.get("conditions") or ())
    for index, condition in enumerate(listed):
        if condition["type"] == new["type"]:
            same = condition["status"] == new["status"]
            listed[index] = new | ({"lastTransitionTime": condition["lastTransitionTime"]} if same else {})
            break
    else:
        listed.append(new)
    status["conditions"] = listed


def _storage_versions(spec: JsonSchemaProps) -> list[str]:
    return [version["name"] for version in spec["versions"] if version.get("storage") and version.get("name")][:1]


def _validate_spec(spec: JsonSchemaProps) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif errors := name_validation.dns1123_subdomain(group):
        yield invalid("spec.group", group, ",".join(errors))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from field_errors.validate_enum("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    versions = spec["versions"]
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
        if errors := name_validation.dns1035_label(version.get("name") or ""):
            yield invalid(f"spec.versions[{index}].name", version.get("name") or "", ",".join(errors))
    yield from _validate_version_set(versions)
    yield from _validate_names(spec["names"])
    yield from _validate_schemas(versions)
    yield from _validate_conversion(spec)


def _validate_version_set(versions: list[JsonSchemaProps]) -> Iterator[FieldError]:
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _validate_conversion(spec: JsonSchemaProps) -> Iterator[FieldError]:
    strategy = spec["conversion"].get("strategy") or ""
    yield from field_errors.validate_enum("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield field_errors.forbidden("spec.conversion.strategy", "this server calls no webhooks")
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", value=True, detail=detail)


def _validate_names(given: JsonSchemaProps) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield required(f"spec.names.{name}")
    for name in ("plural", "singular", "kind", "listKind"):
        text = given.get(name) or ""
        mixed = "may have mixed case, but should otherwise match: " if name in ("kind", "listKind") else ""
        if text and (errors := name_validation.dns1035_label(text.lower() if mixed else text)):
            yield invalid(f"spec.names.{name}", text, mixed + ",".join(errors))
    for name in ("shortNames", "categories"):
        for index, text in enumerate(given.get(name) or ()):
            if errors := name_validation.dns1035_label(text):
                yield invalid(f"spec.names.{name}[{index}]", text, ",".join(errors))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _validate_schemas(versions: list[JsonSchemaProps]) -> Iterator[FieldError]:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in versions]
    if versions and all(other == schemas[0] for other in schemas):  # upstream moves an equal schema to spec
        yield from _validate_schema(schemas[0], "spec.validation.openAPIV3Schema")
        return
    for index, schema in enumerate(schemas):
        yield from _validate_schema(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def _validate_schema(schema: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    """Yield the parts of a schema that cannot be enforced: lists of schemas in items, patterns and rules in error.

    Upstream also refuses schemas that are not structural; this server prunes the fields that such a schema hides.
    """
    if not isinstance(schema.get("items"), dict | None):
        yield field_errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if (pattern := schema.get("pattern")) and (error := Pattern.cached(pattern).error):
        yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")
    for index, rule in enumerate(schema.get(validation_rules.VALIDATIONS) or ()):
        try:
            validation_rules.compile_rule(rule, schema)
        except validation_rules.RuleCompilationError as error:
            where = f"{path}.{validation_rules.VALIDATIONS}[{index}].{error.part}"
            yield invalid(where, _rule_as_go(rule), error.detail)
    for where, nested in _nested_schemas(schema):
        yield from _validate_schema(nested, f"{path}.{where}")


def _rule_as_go(rule: JsonSchemaProps) -> JsonSchemaProps:
    """Return a rule as upstream prints it: with the Go names of its fields."""
    return {
        "Rule": rule["rule"],
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _nested_schemas(schema: JsonSchemaProps) -> Iterator[tuple[str, JsonSchemaProps]]:
    """Yield the path and the schema of each schema inside of a schema."""
    for name, nested in (schema.get("properties") or {}).items():
        yield f"properties[{name}]", nested
    for name in ("additionalProperties", "items", "not"):
        if isinstance(nested := schema.get(name), dict):
            yield name, nested
    for name in ("allOf", "anyOf", "oneOf"):
        yield from ((f"{name}[{index}]", nested) for index, nested in enumerate(schema.get(name) or ()))


def _check_untyped_schemas(schema: JsonSchemaProps) -> None:
    """Check the fields of schemas in items and additionalProperties, which the codec passes as any JSON value.

    Raises `UnmarshalTypeError`.
    """
    decoder = go_decoder.struct_decoder(load_builtin_schemas(Dialect.STOCK).definition(JSON_SCHEMA_PROPS))
    for where, nested in _nested_schemas(schema):
        if where in ("additionalProperties", "items"):
            decoder.read(nested, "", [])
        _check_untyped_schemas(nested)
