"""Validates the metadata of all objects: names, labels, annotations, owner references, finalizers."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from dra.model import name_validation
from localplane.kinds import field_errors
from localplane.kinds.kind import Kind
from localplane.objects import Object, metadata
from localplane.status_errors import FieldError

TOTAL_ANNOTATION_SIZE_LIMIT: Final = 256 * 1024


def validate(kind: Kind, obj: Object) -> list[FieldError]:
    """Return the errors in the metadata of a new object."""
    meta = metadata(obj)
    prefix, name = meta.get("generateName", ""), meta["name"]
    causes = field_errors.invalid_for_each(
        "metadata.generateName", prefix, kind.name_format.errors(prefix, prefix=True) if prefix else []
    )
    causes += field_errors.invalid_for_each("metadata.name", name, kind.name_format.errors(name))
    finalizers = meta.get("finalizers") or []
    return causes + _validate_common(meta, "metadata") + _validate_finalizers(finalizers)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Return the errors of a metadata update; the format of finalizers is not validated again, as upstream."""
    meta, before = metadata(new), metadata(old)
    causes = []
    if "deletionTimestamp" in before:
        added = sorted(set(meta.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(field_errors.format_value(finalizer) for finalizer in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(field_errors.forbidden("metadata.finalizers", detail))
    return causes + _validate_common(meta, "metadata")


def validate_template(meta: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors in the metadata of a template."""
    return _validate_common(meta, path) + _validate_finalizers(meta.get("finalizers") or [], path)


def _validate_common(meta: Mapping[str, Any], path: str) -> list[FieldError]:
    causes = validate_labels(f"{path}.labels", meta.get("labels") or {})
    causes += validate_annotations(f"{path}.annotations", meta.get("annotations") or {})
    return causes + _validate_owner_references(meta.get("ownerReferences") or [], f"{path}.ownerReferences")


def validate_annotations(path: str, values: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of annotations: of their keys, and of their size in all."""
    causes = []
    for key in values:
        causes += field_errors.invalid_for_each(path, key, name_validation.qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > TOTAL_ANNOTATION_SIZE_LIMIT:
        causes.append(field_errors.too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT))
    return causes


def validate_labels(path: str, values: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of labels; an error of a value shows the value, and its path does not name the key."""
    causes = []
    for key, value in values.items():
        if len(key) + len(value) <= _LONGEST_KNOWN_LABEL and _is_valid_label(key, value):
            continue
        causes += field_errors.invalid_for_each(path, key, name_validation.qualified_name(key))
        causes += field_errors.invalid_for_each(path, value, name_validation.label_value(value))
    return causes


_LONGEST_KNOWN_LABEL: Final = 512
"""Length of a label up to which it is remembered whether it is valid: the valid ones are shorter."""


@lru_cache(maxsize=4096)
def _is_valid_label(key: str, value: str) -> bool:
    """Report whether a label has no errors; each write of an object validates all of its labels."""
    return not name_validation.qualified_name(key) and not name_validation.label_value(value)


def _validate_owner_references(owners: list[Object], path: str) -> list[FieldError]:
    causes = []
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion", "").rpartition("/")[2]
        if not version:
            causes.append(
                field_errors.invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
            )
        missing = (name for name in ("kind", "name", "uid") if not owner.get(name))
        causes += [field_errors.invalid(f"{path}.{name}", "", "must not be empty") for name in missing]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            causes.append(field_errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                causes.append(field_errors.invalid(path, owners, detail))
            else:
                controller = this
    return causes


def _validate_finalizers(finalizers: list[str], path: str = "metadata") -> list[FieldError]:
    causes = []
    for finalizer in finalizers:
        causes += field_errors.invalid_for_each(
            f"{path}.finalizers", finalizer, name_validation.qualified_name(finalizer)
        )
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(field_errors.invalid(f"{path}.finalizers", finalizers, detail))
    return causes
