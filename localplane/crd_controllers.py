"""Serves the kinds of CustomResourceDefinitions, as apiextensions' naming, establishing and finalizing controllers do.

The controllers follow every write of a definition: names are accepted or refused, an established definition is served
at once, and a definition that is being deleted loses its custom objects first. Upstream does the same a moment later;
a client cannot tell the difference.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.kube.clock import Clock, rfc3339
from dra.model.releases import Traits
from localplane.crds import custom_resources
from localplane.crds.custom_resource_definitions import (
    CLEANUP_FINALIZER,
    CUSTOM_RESOURCE_DEFINITIONS,
    condition_status,
    is_established,
    set_condition,
)
from localplane.crds.pruning import JsonSchemaProps
from localplane.kinds.catalog import Catalog
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import STATUS, DeleteOptions
from localplane.objects import Object, decode, metadata
from localplane.registry import Registry
from localplane.routes import Route

_EXCLUSIVE_NAMES: Final = ("plural", "singular", "kind", "listKind")


class CrdControllers:
    """Keeps the catalog of kinds in step with the CustomResourceDefinitions in a store."""

    def __init__(self, registry: Registry, catalog: Catalog, *, clock: Clock, traits: Traits) -> None:
        self._registry = registry
        self._catalog = catalog
        self._clock = clock
        self._traits = traits
        self._served: dict[str, tuple[Object, list[Kind]]] = {}
        """Served definitions by name: spec and accepted names, and the kinds that were made of these."""
        self._terminating: set[str] = set()
        """Collections of deleted definitions that wait until their last object is gone."""
        self._reconciling = False
        catalog.add(CUSTOM_RESOURCE_DEFINITIONS)
        registry.store.subscribe(self._on_write)

    def _on_write(self, collection: str) -> None:
        """Reconcile all definitions after a write to one of the followed collections."""
        if self._reconciling or collection not in (CUSTOM_RESOURCE_DEFINITIONS.collection, *self._terminating):
            return
        self._reconciling = True
        try:
            while sum(
                self._reconcile(definition) for definition in self._list_definitions()
            ):  # not any(): each may free a name for another
                pass
            self._stop_serving_deleted()
        finally:
            self._reconciling = False

    def _list_definitions(self) -> Iterator[Object]:
        for stored in self._registry.store.snapshot(CUSTOM_RESOURCE_DEFINITIONS.collection):
            yield decode(stored.raw)

    def _reconcile(self, definition: Object) -> bool:
        """Reconcile one definition; return whether the definition changed."""
        if "deletionTimestamp" in metadata(definition):
            return self._delete_instances(definition)
        revision = self._registry.store.revision
        self._reconcile_names(definition)
        return self._registry.store.revision != revision

    def _reconcile_names(self, definition: Object) -> None:
        """Accept the names of a definition or report conflicts in its conditions; serve an established definition."""
        spec, name = definition["spec"], metadata(definition)["name"]
        if (
            condition_status(definition, "NamesAccepted") == "True"
            and definition["status"]["acceptedNames"] == spec["names"]
        ):
            self._serve(name, definition)
            return
        taken = self._names_in_use(definition)
        accepted, refused = _accepted_names(spec["names"], definition["status"].get("acceptedNames") or {}, taken)
        status: JsonSchemaProps = {**definition["status"], "acceptedNames": accepted}
        now = self._clock.wall()
        if refused:
            reason, message = refused
            set_condition(status, _condition("NamesAccepted", now, reason=reason, message=message, holds=False))
        else:
            words = ("NoConflicts", "no conflicts found")
            set_condition(status, _condition("NamesAccepted", now, reason=words[0], message=words[1]))
        if not is_established(definition):
            words = ("InitialNamesAccepted", "the initial names have been accepted")
            if refused:
                words = ("NotAccepted", "not all names are accepted")
            holds = not refused
            set_condition(status, _condition("Established", now, reason=words[0], message=words[1], holds=holds))
        self._update_status(name, {**definition, "status": status})
        self._serve(name, {**definition, "status": status})

    def _update_status(self, name: str, definition: Object) -> None:
        route = Route(CUSTOM_RESOURCE_DEFINITIONS, name=name, subresource=STATUS)
        self._registry.update(route, lambda old: {**old, "status": definition["status"]})

    def _names_in_use(self, definition: Object) -> dict[str, set[str]]:
        """Return the accepted names of the group's other definitions: names of resources, and names of kinds."""
        resources: set[str] = set()
        named: set[str] = set()
        for other in self._list_definitions():
            same = metadata(other)["uid"] == metadata(definition)["uid"]
            if same or other["spec"]["group"] != definition["spec"]["group"]:
                continue
            names = (other.get("status") or {}).get("acceptedNames") or {}
            resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            named |= {names.get("kind", ""), names.get("listKind", "")}
        return {"plural": resources, "singular": resources, "shortNames": resources, "kind": named, "listKind": named}

    def _serve(self, name: str, definition: Object) -> None:
        if not is_established(definition):
            return
        what = {"spec": definition["spec"], "names": definition["status"]["acceptedNames"]}
        before, kinds = self._served.get(name, ({}, []))
        if what == before:
            return
        for kind in kinds:
            self._catalog.remove(kind)
        made = custom_resources.custom_kinds(definition, self._traits)
        for kind in made:
            self._catalog.add(kind)
        self._served[name] = (what, made)

    def _delete_instances(self, definition: Object) -> bool:
        """Delete the objects of a definition, then remove its finalizer; return whether the finalizer was removed."""
        name, store = metadata(definition)["name"], self._registry.store
        if CLEANUP_FINALIZER not in (metadata(definition).get("finalizers") or ()):
            return False
        kind = self._storage_kind(name, definition)
        if kind is not None:
            for stored in store.snapshot(kind.collection):
                if b'"deletionTimestamp"' in stored.raw and "deletionTimestamp" in metadata(decode(stored.raw)):
                    continue
                self._registry.delete(Route(kind, stored.key.namespace, stored.key.name), DeleteOptions())
            if store.snapshot(kind.collection):
                self._terminating.add(kind.collection)
                return False
            self._terminating.discard(kind.collection)

        def freed(old: Object) -> Object:
            meta = metadata(old)
            meta["finalizers"] = [finalizer for finalizer in meta["finalizers"] if finalizer != CLEANUP_FINALIZER]
            return old

        self._registry.update(Route(CUSTOM_RESOURCE_DEFINITIONS, name=name), freed)
        return True

    def _storage_kind(self, name: str, definition: Object) -> Kind | None:
        made = self._served.get(name, ({}, []))[1] or (
            custom_resources.custom_kinds(definition, self._traits) if is_established(definition) else []
        )
        return made[0] if made else None

    def _stop_serving_deleted(self) -> None:
        """Stop serving the kinds of definitions that no longer exist."""
        existing_names = {
            stored.key.name for stored in self._registry.store.snapshot(CUSTOM_RESOURCE_DEFINITIONS.collection)
        }
        for name in [name for name in self._served if name not in existing_names]:
            for kind in self._served.pop(name)[1]:
                self._catalog.remove(kind)


def _accepted_names(
    wanted: JsonSchemaProps, had: JsonSchemaProps, taken: dict[str, set[str]]
) -> tuple[JsonSchemaProps, tuple[str, str] | None]:
    """Return the accepted names of a definition, and reason and message if a name is refused."""
    accepted: JsonSchemaProps = {"plural": "", "kind": "", **had}
    refused: tuple[str, str] | None = None
    for name in _EXCLUSIVE_NAMES:
        name_wanted = wanted.get(name, "")
        if name_wanted == had.get(name, "") or name_wanted not in taken[name]:
            accepted[name] = name_wanted
        else:
            refused = (f"{name[0].upper()}{name[1:]}Conflict", f'"{name_wanted}" is already in use')
    new_short_names = [
        short_name for short_name in wanted.get("shortNames") or () if short_name not in (had.get("shortNames") or ())
    ]
    conflicts = [short_name for short_name in new_short_names if short_name in taken["shortNames"]]
    if conflicts:
        listed = [f'"{short_name}" is already in use' for short_name in conflicts]
        refused = ("ShortNamesConflict", listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]")
    for name in ("categories",) if conflicts else ("shortNames", "categories"):
        if wanted.get(name):
            accepted[name] = wanted[name]
        else:
            accepted.pop(name, None)
    return accepted, refused


def _condition(kind: str, now: datetime, *, reason: str, message: str, holds: bool = True) -> JsonSchemaProps:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": message,
    }
