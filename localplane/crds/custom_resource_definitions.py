"""Defaults and validates CustomResourceDefinitions; `localplane.crds.custom_resources` makes the kinds they define.

A definition is deleted in two steps: deletion adds a finalizer, which is removed after the last custom object.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from localplane.crds import definition_types, pruning, structural_schemas
from localplane.crds.pruning import JsonSchemaProps
from localplane.kinds import field_errors, name_validation
from localplane.kinds.field_errors import invalid, required
from localplane.kinds.kind import Kind, PrinterColumn, Strategy
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of a deleted definition whose custom objects still exist."""

_API_APPROVED_ANNOTATION: Final = "api-approved.kubernetes.io"
_MAX_SELECTABLE_FIELDS: Final = 8
_DEPRECATION_WARNING_MAX_LENGTH: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


class CustomResourceDefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions: defaults, validation, deletion."""

    def default(self, obj: Object) -> None:
        """Set defaults of names, conversion and versions; check the types of all fields."""
        definition_types.check_definition_types(obj)
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
        found = []
        if metadata(obj)["name"] != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
            found.append(invalid("metadata.name", metadata(obj)["name"], 'must be spec.names.plural+"."+spec.group'))
        return [*found, *_validate_spec(spec), *_validate_stored_versions(obj), *_validate_api_approval(obj, None)]

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Validate an update: all rules of a create, and the fields that are immutable."""
        if new["spec"] == old["spec"]:
            return list(_validate_stored_versions(new))
        spec, before = new["spec"], old["spec"]
        found = list(_validate_spec(spec))
        if is_established(old):
            found += field_errors.validate_immutable("spec.scope", spec.get("scope"), before.get("scope"))
            found += field_errors.validate_immutable(
                "spec.names.kind", spec["names"].get("kind"), before["names"].get("kind")
            )
        found += field_errors.validate_immutable("spec.group", spec.get("group"), before.get("group"))
        found += field_errors.validate_immutable(
            "spec.names.plural", spec["names"].get("plural"), before["names"].get("plural")
        )
        return [*found, *_validate_stored_versions(new), *_validate_api_approval(new, old)]

    def deleting(self, obj: Object) -> None:
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

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the Created At cell: a timestamp, not an age, as upstream."""
        del now
        return {"Created At": metadata(obj).get("creationTimestamp")}

    def held(self, obj: Object) -> bool:
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
    return next((each["status"] for each in listed if each["type"] == kind), "")


def set_condition(status: JsonSchemaProps, new: JsonSchemaProps) -> None:
    """Set a condition in a status; lastTransitionTime changes only together with the condition's status."""
    listed = list(status.get("conditions") or ())
    for index, each in enumerate(listed):
        if each["type"] == new["type"]:
            same = each["status"] == new["status"]
            listed[index] = new | ({"lastTransitionTime": each["lastTransitionTime"]} if same else {})
            break
    else:
        listed.append(new)
    status["conditions"] = listed


def _storage_versions(spec: JsonSchemaProps) -> list[str]:
    return [version["name"] for version in spec["versions"] if version.get("storage") and version.get("name")][:1]


def _validate_stored_versions(obj: Object) -> Iterator[FieldError]:
    path, stored = "status.storedVersions", (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield invalid(path, stored, "must have at least one stored version")
        return
    there = {version.get("name") for version in obj["spec"]["versions"]}
    for index, name in enumerate(stored):
        if name not in there:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, detail)


def _validate_api_approval(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield an error if a group of the Kubernetes community (k8s.io, kubernetes.io) is used without approval."""
    group = new["spec"].get("group") or ""
    if not re.fullmatch(r"(.*\.)?(k8s|kubernetes)\.io", group):
        return
    path, (given, before) = (
        f"metadata.annotations[{_API_APPROVED_ANNOTATION}]",
        (_api_approved(new), old and _api_approved(old)),
    )
    if old is not None and bool(given) == bool(before):
        return
    if not given:
        detail = (
            f'protected groups must have approval annotation "{_API_APPROVED_ANNOTATION}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(path, detail)
    elif not given.startswith(("https://", "http://", "unapproved")):
        detail = (
            f'protected groups must have approval annotation "{_API_APPROVED_ANNOTATION}" with either a URL or a '
            'reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        yield invalid(path, given, detail)


def _api_approved(obj: Object) -> str:
    return (metadata(obj).get("annotations") or {}).get(_API_APPROVED_ANNOTATION) or ""


def _validate_spec(spec: JsonSchemaProps) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif faults := name_validation.dns1123_subdomain(group):
        yield invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from field_errors.validate_enum("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    versions = spec["versions"]
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    same = _shared_fields(versions)
    for index, version in enumerate(versions):
        yield from _validate_version(version, f"spec.versions[{index}]", but=same)
    yield from _validate_version_set(versions)
    yield from _validate_names(spec["names"])
    if versions:
        yield from _validate_version_fields({name: versions[0].get(name) for name in same}, "spec")
    yield from _validate_conversion(spec)


_PER_VERSION_FIELDS: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _shared_fields(versions: list[JsonSchemaProps]) -> frozenset[str]:
    """Return the fields that are equal in all versions: upstream moves these to spec, which shows in error paths."""
    return frozenset(
        name
        for name in _PER_VERSION_FIELDS
        if versions and all(each.get(name) == versions[0].get(name) for each in versions)
    )


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
        if text and (faults := name_validation.dns1035_label(text.lower() if mixed else text)):
            yield invalid(f"spec.names.{name}", text, mixed + ",".join(faults))
    for name in ("shortNames", "categories"):
        for index, text in enumerate(given.get(name) or ()):
            if faults := name_validation.dns1035_label(text):
                yield invalid(f"spec.names.{name}[{index}]", text, ",".join(faults))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _validate_version(version: JsonSchemaProps, path: str, *, but: frozenset[str]) -> Iterator[FieldError]:
    name = version.get("name") or ""
    if faults := name_validation.dns1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(faults))
    warning = version.get("deprecationWarning")
    if warning is not None:
        where = f"{path}.deprecationWarning"
        if not version.get("deprecated"):
            yield invalid(where, warning, "can only be set for deprecated versions")
        elif len(warning) > _DEPRECATION_WARNING_MAX_LENGTH:
            yield invalid(where, warning, "must be <= 256 characters long")
        elif not warning:
            yield invalid(where, warning, "must not be an empty string")
    yield from _validate_version_fields(
        {name: version.get(name) for name in _PER_VERSION_FIELDS if name not in but}, path
    )


def _validate_version_fields(version: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        place = "validation" if path == "spec" else "schema"
        yield from structural_schemas.check_schema(schema, f"{path}.{place}.openAPIV3Schema")
    yield from _validate_scale((version.get("subresources") or {}).get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _validate_printer_column(column, f"{path}.additionalPrinterColumns[{index}]")
    if selectable := version.get("selectableFields"):
        yield from _validate_selectable_fields(selectable, schema or {}, f"{path}.selectableFields")


def _validate_scale(scale: JsonSchemaProps | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for name, roots in (("specReplicasPath", (".spec.",)), ("statusReplicasPath", (".status.",))):
        if not scale.get(name):
            yield required(f"{path}.{name}")
        else:
            yield from _validate_simple_json_path(scale[name], f"{path}.{name}", roots)
    if scale.get("labelSelectorPath"):
        yield from _validate_simple_json_path(
            scale["labelSelectorPath"], f"{path}.labelSelectorPath", (".spec.", ".status.")
        )


def _validate_simple_json_path(text: str, path: str, roots: tuple[str, ...]) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield invalid(path, text, "must be a simple json path starting with .")
    elif not text.startswith(roots):
        place = "either .spec or .status" if len(roots) > 1 else roots[0].removesuffix(".")
        yield invalid(path, text, f"should be a json path under {place}")


def _validate_printer_column(column: JsonSchemaProps, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind, form, where = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    detail = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", detail)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, detail)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not where:
        yield required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _validate_selectable_fields(
    fields: list[JsonSchemaProps], schema: JsonSchemaProps, path: str
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield required(where)
            continue
        found = _schema_at_path(schema, text)
        if found is None:
            yield invalid(where, text, "is an invalid path: does not refer to a valid field")
            continue
        if text.startswith(".metadata."):
            yield invalid(where, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(where, text, detail)
        if text in seen:
            yield field_errors.duplicate(where, text)
        seen.add(text)
    if len(seen) > _MAX_SELECTABLE_FIELDS:
        yield field_errors.too_many(path, len(seen), _MAX_SELECTABLE_FIELDS)


def _schema_at_path(schema: JsonSchemaProps, path: str) -> JsonSchemaProps | None:
    place: Any = schema
    for name in path.removeprefix(".").split("."):
        place = pruning.field_schema(place, name)[1]
        if place is None:
            return None
    found: JsonSchemaProps = place
    return found
