"""Implements server-side apply: each field manager declares the fields that it wants, and owns the declared fields.

A field that its manager no longer applies is removed, unless another manager owns the field. Changing a field of
another manager is a conflict, unless `force` is set, or kubectl migrates its own fields from client-side to server-side
apply. An update, or a patch of another type, takes over the fields that it changes. Values are compared as written, so
``1000m`` and ``1`` differ.

One simplification: ownership is recorded from the first apply on, so all earlier fields belong to
``before-first-apply`` (upstream: only for objects without managedFields).
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from localplane import status_errors
from localplane.objects import Mutation, Object, decode, encode
from localplane.patches import field_sets
from localplane.patches.field_sets import FieldSet
from localplane.schemas.go_decoder import format_as_go, json_type_name
from localplane.schemas.schema import ElementRelationship, Schema
from localplane.status_errors import StatusError

_Json: TypeAlias = Any

BEFORE_FIRST_APPLY: Final = "before-first-apply"
KUBECTL_MANAGER: Final = "kubectl"
LAST_APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which client-side ``kubectl apply`` stores the applied object."""

_STRIPPED_FIELDS: Final = field_sets.from_fields_v1(
    {
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {
            ".": {},
            **{
                f"f:{name}": {}
                for name in (
                    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation"),
                    *("managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid"),
                )
            },
        },
    }
)
_METADATA_ITSELF: Final[FieldSet] = {"f:metadata": {".": {}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldManagerIdentity:
    """The field manager of a request: name, API version, subresource, and time."""

    manager: str
    api_version: str
    subresource: str = ""
    time: str
    has_status_subresource: bool = True
    """Whether the kind has a status subresource."""


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """The fields of one manager: an entry of ``metadata.managedFields``."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    def is_managed_by(self, identity: FieldManagerIdentity, operation: str) -> bool:
        """Return whether the entry belongs to a field manager and operation."""
        return (self.manager, self.operation, self.subresource) == (identity.manager, operation, identity.subresource)

    @property
    def conflict_name(self) -> str:
        """Return the name of the manager in conflict messages."""
        update = f" using {self.api_version}" if self.operation == "Update" else ""
        return f'"{self.manager}"' + (f' with subresource "{self.subresource}"' if self.subresource else "") + update

    def with_fields(self, fields: FieldSet, time: str) -> "ManagedFieldsEntry":
        """Return the entry with other fields; the time changes only together with the fields."""
        kept = self.time if fields == self.fields else time
        return ManagedFieldsEntry(self.manager, self.operation, self.api_version, self.subresource, kept, fields)

    @property
    def to_json(self) -> Object:
        """Return the entry as stored in ``managedFields``."""
        document: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        document |= {"fieldsType": "FieldsV1", "fieldsV1": field_sets.to_fields_v1(self.fields)}
        if self.time:
            document["time"] = self.time
        return document | ({"subresource": self.subresource} if self.subresource else {})


def read_managed_fields(obj: Object) -> list[ManagedFieldsEntry]:
    """Return the entries of an object's ``managedFields``."""
    return [
        ManagedFieldsEntry(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            entry.get("time", ""),
            field_sets.from_fields_v1(entry.get("fieldsV1") or {}),
        )
        for entry in obj.get("metadata", {}).get("managedFields") or ()
    ]


def _write_managed_fields(obj: Object, entries: Iterable[ManagedFieldsEntry]) -> Object:
    """Write ``managedFields``: entries of Apply, then of Update, each ordered by time and manager."""
    listed = sorted(
        (entry for entry in entries if entry.fields),
        key=lambda entry: (entry.operation != "Apply", entry.time, entry.manager),
    )
    meta = obj.setdefault("metadata", {})
    if listed:
        meta["managedFields"] = [entry.to_json for entry in listed]
    else:
        meta.pop("managedFields", None)
    return obj


def check_applied_object(body: _Json, *, api_version: str, kind: str) -> Object:
    """Return the applied object if it is one of the kind; raises `StatusError` 400."""
    if not isinstance(body, dict):
        what = f"json: cannot unmarshal {json_type_name(body)} into Go value of type map[string]interface {{}}"
        raise status_errors.bad_request(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {what}")
    given = body.get("apiVersion") or "", body.get("kind") or ""
    if given != (api_version, kind):
        group, _, version = str(given[0]).rpartition("/")
        raise status_errors.bad_request(f"invalid object type: {group}/{version}, Kind={given[1]}")
    return body


def apply_mutation(applied: Object, schema: Schema, identity: FieldManagerIdentity, *, force: bool = False) -> Mutation:
    """Return the mutation that applies an object; applied to an empty object, the mutation creates a new one.

    Raises `StatusError` 400 and 500 for an invalid object; the mutation raises 409 for conflicts.
    """
    meta = applied.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise status_errors.bad_request("metadata.managedFields must be nil")
    wrong = list(_type_errors(applied, schema, ""))
    if wrong:
        raise _typed_conversion_error(applied, wrong)

    def apply(live: Object) -> Object:
        mine = _strip_unowned(field_sets.applied_fields(applied, schema), identity)
        known = read_managed_fields(live)
        if live and not known:
            everything = _strip_unowned(field_sets.added_fields(live, schema), identity, whole=True)
            known = [
                ManagedFieldsEntry(BEFORE_FIRST_APPLY, "Update", identity.api_version, "", identity.time, everything)
            ]
        others = [entry for entry in known if not entry.is_managed_by(identity, "Apply")]
        own = next((entry for entry in known if entry.is_managed_by(identity, "Apply")), None)
        new = _merge_value(deepcopy(live), _writable_part(applied, identity), schema)
        changed, _ = field_sets.compare_fields(live, new, schema)
        wanted = field_sets.intersection(changed, mine)
        claimed = [(entry, field_sets.intersection(entry.fields, wanted)) for entry in others]
        upgraded = _last_applied_fields(live, schema, identity)
        if not force and any(field_sets.difference(fields, upgraded) for _, fields in claimed):
            raise _conflict_error({entry.conflict_name: fields for entry, fields in claimed if fields})
        others = [
            entry.with_fields(field_sets.difference(entry.fields, fields), identity.time) for entry, fields in claimed
        ]
        if own is not None:
            kept = mine
            for entry in others:
                kept = field_sets.union(kept, entry.fields)
            _prune_unowned(new, own.fields, kept, schema)
        else:
            own = ManagedFieldsEntry(identity.manager, "Apply", identity.api_version, identity.subresource, "", {})
        if upgraded:
            new["metadata"]["annotations"][LAST_APPLIED_ANNOTATION] = f"{_encode_sorted(applied)}\n"
        # An apply without changes leaves the time; null may stand for a default, so null counts as a change.
        time = identity.time if new != live or _has_null(applied) else own.time
        return _write_managed_fields(new, [own.with_fields(mine, time), *others])

    return apply


def _last_applied_fields(live: Object, schema: Schema, identity: FieldManagerIdentity) -> FieldSet:
    """Return the still unchanged fields of client-side ``kubectl apply``, which kubectl may take over."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED_ANNOTATION)
    if identity.manager != KUBECTL_MANAGER or identity.subresource or not isinstance(text, str):
        return {}
    try:
        last = decode(text.encode())
    except msgspec.DecodeError:
        return {}
    changed, _ = field_sets.compare_fields(last, live, schema)
    return _strip_unowned(field_sets.difference(field_sets.applied_fields(last, schema), changed), identity)


def _encode_sorted(value: _Json) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def update_managed_fields(new: Object, old: Object, schema: Schema, identity: FieldManagerIdentity) -> None:
    """Record the fields that an update or patch has changed, if the object has ``managedFields``."""
    known, meta = read_managed_fields(old), new["metadata"]
    said = meta.get("managedFields")
    if not known or (said is not None and not any(said)):  # [] and [{}] clear managedFields
        meta.pop("managedFields", None)
        return
    changed, removed = (_strip_unowned(fields, identity) for fields in field_sets.compare_fields(old, new, schema))
    own = next((entry for entry in known if entry.is_managed_by(identity, "Update")), None)
    if own is None:
        own = ManagedFieldsEntry(
            identity.manager, "Update", identity.api_version, identity.subresource, identity.time, {}
        )
    others = [entry for entry in known if not entry.is_managed_by(identity, "Update")]
    lost = [field_sets.recursive_difference(field_sets.difference(entry.fields, changed), removed) for entry in others]
    kept = [entry.with_fields(fields, identity.time) for entry, fields in zip(others, lost, strict=True)]
    mine = field_sets.union(field_sets.recursive_difference(own.fields, removed), changed)
    _write_managed_fields(new, [own.with_fields(mine, identity.time), *kept])


def _has_null(value: _Json) -> bool:
    if isinstance(value, dict):
        return any(_has_null(part) for part in value.values())
    return any(_has_null(item) for item in value) if isinstance(value, list) else value is None


def _writable_part(applied: Object, identity: FieldManagerIdentity) -> Object:
    """Return the applied fields that may change the object: for ``/status`` only the status, else the rest."""
    if identity.subresource == "status":
        return {name: part for name, part in applied.items() if name in ("metadata", "status")} | {
            "metadata": _identifying_metadata(applied.get("metadata") or {})
        }
    return {name: part for name, part in applied.items() if name != "status" or not identity.has_status_subresource}


def _identifying_metadata(meta: Object) -> Object:
    return {name: part for name, part in meta.items() if name in ("name", "namespace", "uid", "resourceVersion")}


def _strip_unowned(fields: FieldSet, identity: FieldManagerIdentity, *, whole: bool = False) -> FieldSet:
    """Return the fields that a manager can own."""
    owned = field_sets.difference(
        field_sets.recursive_difference(fields, {**_STRIPPED_FIELDS, "f:metadata": _stripped_metadata()}),
        _METADATA_ITSELF,
    )
    owned.pop(field_sets.MEMBER_MARK, None)
    if whole:
        return owned
    if identity.subresource == "status":
        return {name: inner for name, inner in owned.items() if name == "f:status"}
    if identity.has_status_subresource:
        owned.pop("f:status", None)
    return owned


def _stripped_metadata() -> FieldSet:
    return {name: inner for name, inner in _STRIPPED_FIELDS["f:metadata"].items() if name != field_sets.MEMBER_MARK}


def _merge_value(live: _Json, applied: _Json, schema: Schema) -> _Json:
    """Return the live value with the applied value merged in; null leaves the live value unchanged."""
    if applied is None:
        return live
    if not field_sets.is_granular(applied, schema):
        return deepcopy(applied)
    if isinstance(applied, dict):
        merged = live if isinstance(live, dict) else {}
        for name, value in applied.items():
            part = _merge_value(merged.get(name), value, field_sets.field_schema(schema, name))
            if part is not None:
                merged[name] = part
        return merged
    return _merge_list(live if isinstance(live, list) else [], applied, schema)


def _merge_list(live: list[_Json], applied: list[_Json], schema: Schema) -> list[_Json]:
    """Return the elements of both lists in the applied order; elements of the live list only come first if possible."""
    there = {field_sets.path_element(item, schema): item for item in live}
    wanted = {field_sets.path_element(item, schema): item for item in applied}
    left, right = list(there), list(wanted)
    merged: list[_Json] = []
    done: set[str] = set()
    while left or right:
        if left and left[0] not in wanted:
            merged.append(there[left.pop(0)])
        elif left and (left[0] in done or (right and left[0] != right[0] and right[0] in left)):
            left.pop(0)  # merged at its position in the applied list
        else:
            key = right.pop(0)
            done.add(key)
            merged.append(_merge_element(there.get(key), wanted[key], schema))
    return merged


def _merge_element(live: _Json, applied: _Json, schema: Schema) -> _Json:
    return (
        applied
        if schema.relationship is ElementRelationship.SET
        else _merge_value(live or {}, applied, field_sets.item_schema(schema))
    )


def _prune_unowned(value: _Json, removed: FieldSet, kept: FieldSet, schema: Schema) -> None:
    """Remove the fields in `gone` from a value, except for fields in `kept`."""
    for name, inner in removed.items():
        if name == field_sets.MEMBER_MARK:
            continue
        if isinstance(value, dict):
            field = name.removeprefix("f:")
            if field not in value:
                continue
            if name not in kept:
                del value[field]
            else:
                _prune_unowned(value[field], inner, kept[name], field_sets.field_schema(schema, field))
        elif isinstance(value, list):
            index = next((i for i, item in enumerate(value) if field_sets.path_element(item, schema) == name), None)
            if index is None:
                continue
            if name not in kept:
                del value[index]
            else:
                _prune_unowned(value[index], inner, kept[name], field_sets.item_schema(schema))


def _conflict_error(claimed: Mapping[str, FieldSet]) -> StatusError:
    """Return 409 Conflict with every field that another manager owns."""
    listed = {who: list(field_sets.path_texts(fields)) for who, fields in sorted(claimed.items())}
    count = sum(map(len, listed.values()))
    if count == 1:
        ((who, (path,)),) = listed.items()
        text = f"conflict with {who}: {path}"
    else:
        text = "\n".join("\n- ".join((f"conflicts with {who}:", *paths)) for who, paths in listed.items())
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, paths in listed.items()
        for path in paths
    ]
    plural = "conflict" if count == 1 else "conflicts"
    return StatusError(409, "Conflict", f"Apply failed with {count} {plural}: {text}", {"causes": causes})


def _typed_conversion_error(applied: Object, errors: list[str]) -> StatusError:
    meta = applied.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
    name = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {group}/{version}, Kind={applied.get('kind', '')}"
    texts = errors[0] if len(errors) == 1 else "errors:" + "".join(f"\n  {error}" for error in errors)
    return StatusError(500, "", f"failed to create typed patch object ({name}): {texts}")


_PYTHON_TYPES: Final[dict[str, type]] = {"string": str, "boolean": bool}


def _type_errors(value: _Json, schema: Schema, path: str) -> Iterable[str]:
    """Yield the errors of applied values that violate the schema, which apply refuses instead of warning."""
    if value is None or (not schema.type and not schema.fields):
        return
    if schema.type == "object" or schema.fields:
        if isinstance(value, dict):
            yield from _field_type_errors(value, schema, path)
        else:
            yield f"{path}: expected map, got &{{{format_as_go(value)}}}"
    elif schema.type == "array":
        if isinstance(value, list):
            yield from _list_type_errors(value, schema, path)
        else:
            yield f"{path}: expected list, got &{{{format_as_go(value)}}}"
    elif schema.type in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{path}: expected numeric (int or float), got {_go_type(value)}"
    elif not schema.format and not isinstance(value, _PYTHON_TYPES[schema.type]):
        yield f"{path}: expected {schema.type}, got {_go_value(value)}"


def _field_type_errors(value: Object, schema: Schema, path: str) -> Iterable[str]:
    for name, part in value.items():
        field = schema.fields.get(name) or schema.values
        if field is not None:
            yield from _type_errors(part, field, f"{path}.{name}")
        elif not schema.preserve:
            yield f"{path}.{name}: field not declared in schema"


def _list_type_errors(value: list[_Json], schema: Schema, path: str) -> Iterable[str]:
    inner = field_sets.item_schema(schema)
    seen: set[str] = set()
    for index, item in enumerate(value):
        if _omits_all_keys(item, schema):
            shown = encode(list(schema.list_map_keys)).decode().replace(",", " ")
            omits = f"an element that omits all key fields {shown} (and doesn't have default values for any key fields)"
            yield f"{path}: element {index}: associative list with keys has {omits}"
            continue
        if field_sets.is_granular(value, schema):
            key = field_sets.path_element(item, schema)
            shown = next(field_sets.path_texts({key: field_sets.leaf_set()}))
            if key in seen:
                yield f"{path}: duplicate entries for key {shown}"
            seen.add(key)
        else:
            shown = f"[{index}]"
        yield from _type_errors(item, inner, f"{path}{shown}")


def _omits_all_keys(item: _Json, schema: Schema) -> bool:
    """Return whether an element of a list of type map has no key field."""
    if schema.relationship is not ElementRelationship.MAP or not isinstance(item, dict):
        return False
    inner = field_sets.item_schema(schema)
    return all(
        item.get(name) is None and field_sets.field_schema(inner, name).default is None for name in schema.list_map_keys
    )


def _go_value(value: _Json) -> str:
    return f"&value.valueUnstructured{{Value:{msgspec.json.encode(value).decode()}}}"


def _go_type(value: _Json) -> str:
    match value:
        case bool():
            return "bool"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case _:
            return json_type_name(value)
