"""CustomResourceDefinitions themselves: defaults and validation; what they make is `custom`'s business.

A definition is deleted in two steps: the finalizer that its deletion puts on it goes when its objects are gone.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from dra.local.crds import pruning, shape, structure
from dra.local.crds.pruning import Node
from dra.local.kinds import causes, names
from dra.local.kinds.causes import invalid, required
from dra.local.kinds.kind import Column, Kind, Strategy
from dra.local.objects import Object, metadata
from dra.local.refusals import Cause

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition whose objects are still to be deleted."""

_APPROVED: Final = "api-approved.kubernetes.io"
_SELECTABLE: Final = 8
_WARNING: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


class DefinitionStrategy(Strategy):
    """The rules of definitions."""

    def default(self, obj: Object) -> None:
        """Fill in names, conversion and the stored version."""
        shape.check(obj)
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

    def prepare_create(self, obj: Object) -> None:
        """Begin with a status that names nothing but the stored version."""
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _stored(obj["spec"]),
        }

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep the status, but for a new stored version."""
        super().prepare_update(new, old)
        had = (new.get("status") or {}).get("storedVersions") or []
        added = [name for name in _stored(new["spec"]) if name not in had]
        if added:
            new["status"] = {**new["status"], "storedVersions": [*had, *added]}

    def validate(self, obj: Object) -> list[Cause]:
        """Check names, versions, schemas."""
        spec = obj["spec"]
        found = []
        if metadata(obj)["name"] != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
            found.append(invalid("metadata.name", metadata(obj)["name"], 'must be spec.names.plural+"."+spec.group'))
        return [*found, *_spec(spec), *_stored_versions(obj), *_approval(obj, None)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Check it again, and that it still means the same objects."""
        if new["spec"] == old["spec"]:
            return list(_stored_versions(new))
        spec, before = new["spec"], old["spec"]
        found = list(_spec(spec))
        if established(old):
            found += causes.immutable("spec.scope", spec.get("scope"), before.get("scope"))
            found += causes.immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
        found += causes.immutable("spec.group", spec.get("group"), before.get("group"))
        found += causes.immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))
        return [*found, *_stored_versions(new), *_approval(new, old)]

    def deleting(self, obj: Object) -> None:
        """Hold the definition until its objects are gone."""
        meta = metadata(obj)
        if CLEANUP not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
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
        """Return when it was created: in words of upstream, which is no age."""
        del now
        return {"Created At": metadata(obj).get("creationTimestamp")}

    def held(self, obj: Object) -> bool:
        """Deletion always begins; how it ends is the finalizer's business."""
        return "deletionTimestamp" not in metadata(obj)


DEFINITION: Final = Kind(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    name="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    strategy=DefinitionStrategy(),
    columns=(
        Column(name="Name", format="name"),
        Column(name="Created At", type="date"),
    ),
)


def established(definition: Object) -> bool:
    """Whether its objects are served."""
    return condition(definition, "Established") == "True"


def condition(definition: Object, kind: str) -> str:
    """Return the status of a condition, empty if there is none."""
    listed = (definition.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in listed if each["type"] == kind), "")


def set_condition(status: Node, new: Node) -> None:
    """Put a condition into a status; the time of one that stays as it is stays, too."""
    listed = list(status.get("conditions") or ())
    for index, each in enumerate(listed):
        if each["type"] == new["type"]:
            same = each["status"] == new["status"]
            listed[index] = new | ({"lastTransitionTime": each["lastTransitionTime"]} if same else {})
            break
    else:
        listed.append(new)
    status["conditions"] = listed


def _stored(spec: Node) -> list[str]:
    return [version["name"] for version in spec["versions"] if version.get("storage") and version.get("name")][:1]


def _stored_versions(obj: Object) -> Iterator[Cause]:
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


def _approval(new: Object, old: Object | None) -> Iterator[Cause]:
    """Yield that a group of the Kubernetes community was taken without its consent."""
    group = new["spec"].get("group") or ""
    if not re.fullmatch(r"(.*\.)?(k8s|kubernetes)\.io", group):
        return
    path, (given, before) = f"metadata.annotations[{_APPROVED}]", (_annotation(new), old and _annotation(old))
    if old is not None and bool(given) == bool(before):
        return
    if not given:
        detail = (
            f'protected groups must have approval annotation "{_APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(path, detail)
    elif not given.startswith(("https://", "http://", "unapproved")):
        detail = (
            f'protected groups must have approval annotation "{_APPROVED}" with either a URL or a reason starting '
            'with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        yield invalid(path, given, detail)


def _annotation(obj: Object) -> str:
    return (metadata(obj).get("annotations") or {}).get(_APPROVED) or ""


def _spec(spec: Node) -> Iterator[Cause]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif faults := names.subdomain(group):
        yield invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from causes.one_of("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    versions = spec["versions"]
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    same = _same(versions)
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]", but=same)
    yield from _together(versions)
    yield from _names(spec["names"])
    if versions:
        yield from _content({name: versions[0].get(name) for name in same}, "spec")
    yield from _otherwise(spec)


_HOISTED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _same(versions: list[Node]) -> frozenset[str]:
    """Return what all versions have in common: upstream moves that out of them, which shows in paths."""
    return frozenset(
        name for name in _HOISTED if versions and all(each.get(name) == versions[0].get(name) for each in versions)
    )


def _together(versions: list[Node]) -> Iterator[Cause]:
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _otherwise(spec: Node) -> Iterator[Cause]:
    strategy = spec["conversion"].get("strategy") or ""
    yield from causes.one_of("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield causes.forbidden("spec.conversion.strategy", "this server calls no webhooks")
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", value=True, detail=detail)


def _names(given: Node) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield required(f"spec.names.{name}")
    for name in ("plural", "singular", "kind", "listKind"):
        text = given.get(name) or ""
        mixed = "may have mixed case, but should otherwise match: " if name in ("kind", "listKind") else ""
        if text and (faults := names.letter_label(text.lower() if mixed else text)):
            yield invalid(f"spec.names.{name}", text, mixed + ",".join(faults))
    for name in ("shortNames", "categories"):
        for index, text in enumerate(given.get(name) or ()):
            if faults := names.letter_label(text):
                yield invalid(f"spec.names.{name}[{index}]", text, ",".join(faults))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _version(version: Node, path: str, *, but: frozenset[str]) -> Iterator[Cause]:
    name = version.get("name") or ""
    if faults := names.letter_label(name):
        yield invalid(f"{path}.name", name, ",".join(faults))
    warning = version.get("deprecationWarning")
    if warning is not None:
        where = f"{path}.deprecationWarning"
        if not version.get("deprecated"):
            yield invalid(where, warning, "can only be set for deprecated versions")
        elif len(warning) > _WARNING:
            yield invalid(where, warning, "must be <= 256 characters long")
        elif not warning:
            yield invalid(where, warning, "must not be an empty string")
    yield from _content({name: version.get(name) for name in _HOISTED if name not in but}, path)


def _content(version: Node, path: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        place = "validation" if path == "spec" else "schema"
        yield from structure.check(schema, f"{path}.{place}.openAPIV3Schema")
    yield from _scale((version.get("subresources") or {}).get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    if selectable := version.get("selectableFields"):
        yield from _selectable(selectable, schema or {}, f"{path}.selectableFields")


def _scale(scale: Node | None, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    for name, roots in (("specReplicasPath", (".spec.",)), ("statusReplicasPath", (".status.",))):
        if not scale.get(name):
            yield required(f"{path}.{name}")
        else:
            yield from _simple(scale[name], f"{path}.{name}", roots)
    if scale.get("labelSelectorPath"):
        yield from _simple(scale["labelSelectorPath"], f"{path}.labelSelectorPath", (".spec.", ".status."))


def _simple(text: str, path: str, roots: tuple[str, ...]) -> Iterator[Cause]:
    if not text.startswith("."):
        yield invalid(path, text, "must be a simple json path starting with .")
    elif not text.startswith(roots):
        place = "either .spec or .status" if len(roots) > 1 else roots[0].removesuffix(".")
        yield invalid(path, text, f"should be a json path under {place}")


def _column(column: Node, path: str) -> Iterator[Cause]:
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


def _selectable(fields: list[Node], schema: Node, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield required(where)
            continue
        found = _field(schema, text)
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
            yield causes.duplicate(where, text)
        seen.add(text)
    if len(seen) > _SELECTABLE:
        yield causes.too_many(path, len(seen), _SELECTABLE)


def _field(schema: Node, path: str) -> Node | None:
    place: Any = schema
    for name in path.removeprefix(".").split("."):
        place = pruning.inner(place, name)[1]
        if place is None:
            return None
    found: Node = place
    return found
