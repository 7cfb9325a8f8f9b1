"""Objects of custom kinds: the strategy that a definition's version makes, and its `Kind`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra.local.crds import defaults, embedded, lists, pruning, rules, values
from dra.local.crds.causes import placed
from dra.local.crds.paths import at
from dra.local.crds.pruning import Node
from dra.local.crds.scale import Scale
from dra.local.kinds import causes
from dra.local.kinds.kind import Column, Kind, Strategy
from dra.local.kinds.subresource import STATUS, Subresource
from dra.local.objects import Object
from dra.local.refusals import Cause
from dra.local.schemas import reading
from dra.local.schemas.schema import Schema
from dra.local.schemas.structures import OBJECT_META, Dialect, structures

NAME: Final = Column(
    name="Name",
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily intended "
    "for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a definition."""

    definition: Object
    spec: Node

    @property
    def name(self) -> str:
        """Return what it is called: ``v1alpha1``."""
        found: str = self.spec["name"]
        return found

    @property
    def schema(self) -> Node:
        """Return the schema of its objects."""
        found: Node = (self.spec.get("schema") or {}).get("openAPIV3Schema") or {}
        return found

    @property
    def subresources(self) -> Node:
        """Return what its objects have besides themselves."""
        found: Node = self.spec.get("subresources") or {}
        return found


class CustomStrategy(Strategy):
    """The rules of one version of a custom kind."""

    def __init__(self, version: Version, kind: str, api_version: str) -> None:
        self.schema = version.schema
        self._status = version.subresources.get("status") is not None
        self._scale = Scale(version.subresources["scale"]) if version.subresources.get("scale") else None
        self._selectable = [each["jsonPath"] for each in version.spec.get("selectableFields") or ()]
        self._rules = rules.plant(self.schema)
        self._meta = {"kind": kind, "apiVersion": api_version}  # the strategy sees objects as they are stored

    def default(self, obj: Object) -> None:
        """Drop what the schema does not know, fill in what it says is meant."""
        pruning.drop_nulls(obj, self.schema)
        pruning.prune(obj, self.schema)
        defaults.apply(obj, self.schema)

    def prepare_create(self, obj: Object) -> None:
        """Drop the status, where it has a path of its own; what is not there is not shown."""
        if self._status:
            obj.pop("status", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Take the status back, where it has a path of its own."""
        if self._status:
            super().prepare_update(new, old)

    def validate(self, obj: Object) -> list[Cause]:
        """Check types and bounds, embedded objects, list entries, then rules, if the shape lets them be tried."""
        if wrong := self._type(obj):
            return wrong
        found = values.check(obj, self.schema)
        found += self._counts(obj)
        found += [*embedded.check(obj, self.schema), *lists.check(obj, self.schema)]
        return placed(self._with_rules(found, obj, values.ABSENT))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Check what has changed; what was wrong before may stay."""
        if wrong := self._type(new):
            return wrong
        if self._status and _but_status(new) == _but_status(old):
            found = self._check_status(new, old)
        else:
            found = values.check(new, self.schema, old=old)
        found += self._counts(new)
        found += embedded.check(new, self.schema)
        if not list(lists.check(old, self.schema)):
            found += lists.check(new, self.schema)
        return placed(self._with_rules(found, new, old))

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields."""
        return {path.removeprefix("."): _text(at(obj, path)) for path in self._selectable}

    def _type(self, obj: Object) -> list[Cause]:
        wrong = ((name, obj.get(name, ""), wanted) for name, wanted in self._meta.items() if obj.get(name) != wanted)
        return [causes.invalid(name, found, f"must be {wanted}") for name, found, wanted in wrong]

    def _check_status(self, new: Object, old: Object) -> list[Cause]:
        schema = (self.schema.get("properties") or {}).get("status")
        if schema is None or "status" not in new:
            return []
        return values.check(new["status"], schema, old=old.get("status", values.ABSENT), under="status")

    def _counts(self, obj: Object) -> list[Cause]:
        return self._scale.check(obj) if self._scale is not None else []

    def _with_rules(self, found: list[Cause], obj: Object, old: object) -> list[Cause]:
        if not self._rules:
            return found
        if any(cause.fault in rules.BLOCKING for cause in found):
            return [*found, rules.BLOCKED]
        return [*found, *rules.check(obj, self._rules, old=old)]


def kinds(definition: Object) -> list[Kind]:
    """Return the kinds that an established definition makes: one for each version that is served."""
    return [
        _kind(definition, Version(definition, each)) for each in definition["spec"]["versions"] if each.get("served")
    ]


def _kind(definition: Object, version: Version) -> Kind:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts: list[Subresource] = []
    if version.subresources.get("status") is not None:
        parts.append(STATUS)
    if scale := version.subresources.get("scale"):
        parts.append(Scale(scale))
    return Kind(
        group=spec["group"],
        version=version.name,
        plural=names["plural"],
        name=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(parts),
        strategy=CustomStrategy(version, names["kind"], f"{spec['group']}/{_storage(spec)}"),
        columns=_columns(version),
        singular_name=names.get("singular", ""),
        list_name=names.get("listKind", ""),
        schema=_structure(version.schema, (spec["group"], version.name, names["kind"])),
        form=_form(definition, version),
        custom=True,
    )


class VersionForm:
    """What an object of the stored version is in another one, and what was left out of an old one: conversion None."""

    def __init__(self, *, shown: str, stored: str, schema: Node) -> None:
        self._shown = shown
        self._stored = stored
        self._schema = schema

    def show(self, obj: Object) -> Object:
        """Say that it is of this version; fill in what its schema says by now."""
        obj["apiVersion"] = self._shown
        defaults.apply(obj, self._schema)
        return obj

    def store(self, obj: Object) -> Object:
        """Say that it is of the stored version."""
        obj["apiVersion"] = self._stored
        return obj


def _storage(spec: Node) -> str:
    """Return the name of the version in which objects are stored."""
    found: str = next(each["name"] for each in spec["versions"] if each.get("storage"))
    return found


def _form(definition: Object, version: Version) -> VersionForm | None:
    stored = _storage(definition["spec"])
    if stored == version.name and not defaults.has_defaults(version.schema):
        return None
    group = definition["spec"]["group"]
    return VersionForm(shown=f"{group}/{version.name}", stored=f"{group}/{stored}", schema=version.schema)


def _structure(schema: Node, kind: tuple[str, str, str]) -> Schema:
    """Return what strict decoding, server-side apply and OpenAPI need to know."""
    return reading.custom(schema, metadata=structures(Dialect.STOCK).definition(OBJECT_META), kind=kind)


def _columns(version: Version) -> tuple[Column, ...]:
    written = version.spec.get("additionalPrinterColumns")
    if not written:
        return ()
    return (NAME, *(_column(each) for each in written))


def _column(each: Node) -> Column:
    path = each["jsonPath"]
    return Column(
        name=each["name"],
        type=each["type"],
        format=each.get("format", ""),
        description=each.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        priority=each.get("priority", 0),
        path=path,
    )


def _but_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("status", "metadata")}


def _text(value: Any) -> str:  # noqa: ANN401 - whatever the field holds
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
