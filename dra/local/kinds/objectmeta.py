"""The rules that the metadata of every object obeys: names, labels, annotations, owners, finalizers."""

from collections.abc import Mapping
from typing import Any, Final

from dra.local.kinds import causes, names
from dra.local.kinds.kind import Kind
from dra.local.objects import Object, metadata
from dra.local.refusals import Cause

ANNOTATIONS_SIZE: Final = 256 * 1024


def validate(kind: Kind, obj: Object) -> list[Cause]:
    """Return what is wrong with the metadata of a new object."""
    meta = metadata(obj)
    prefix, name = meta.get("generateName", ""), meta["name"]
    found = causes.texts("metadata.generateName", prefix, kind.naming.faults(prefix, prefix=True) if prefix else [])
    found += causes.texts("metadata.name", name, kind.naming.faults(name))
    finalizers = meta.get("finalizers") or []
    return found + _common(meta, "metadata") + _finalizers(finalizers)


def validate_update(new: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of the metadata; finalizers are not looked at again, as upstream."""
    meta, before = metadata(new), metadata(old)
    found = []
    if "deletionTimestamp" in before:
        added = sorted(set(meta.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(causes.shown(each) for each in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            found.append(causes.forbidden("metadata.finalizers", detail))
    return found + _common(meta, "metadata")


def validate_template(meta: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the metadata that a template gives its objects."""
    return _common(meta, path) + _finalizers(meta.get("finalizers") or [], path)


def _common(meta: Mapping[str, Any], path: str) -> list[Cause]:
    found = labels(f"{path}.labels", meta.get("labels") or {})
    notes: Mapping[str, str] = meta.get("annotations") or {}
    for key in notes:
        found += causes.texts(f"{path}.annotations", key, names.key(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in notes.items()) > ANNOTATIONS_SIZE:
        found.append(causes.too_long(f"{path}.annotations", ANNOTATIONS_SIZE))
    return found + _owners(meta.get("ownerReferences") or [], f"{path}.ownerReferences")


def labels(path: str, values: Mapping[str, str]) -> list[Cause]:
    """Return what is wrong with labels; the message of a value names the value, the path does not."""
    found = []
    for key, value in values.items():
        found += causes.texts(path, key, names.key(key))
        found += causes.texts(path, value, names.label_value(value))
    return found


def _owners(owners: list[Object], path: str) -> list[Cause]:
    found = []
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion", "").rpartition("/")[2]
        if not version:
            found.append(causes.invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        missing = (name for name in ("kind", "name", "uid") if not owner.get(name))
        found += [causes.invalid(f"{path}.{name}", "", "must not be empty") for name in missing]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            found.append(causes.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                found.append(causes.invalid(path, owners, detail))
            else:
                controller = this
    return found


def _finalizers(finalizers: list[str], path: str = "metadata") -> list[Cause]:
    found = []
    for each in finalizers:
        found += causes.texts(f"{path}.finalizers", each, names.key(each))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(causes.invalid(f"{path}.finalizers", finalizers, detail))
    return found
