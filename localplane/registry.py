"""Reads and writes objects by the rules that all kinds share, around the strategy of each kind.

The rules are optimistic concurrency, no-op writes, generation, finalizers, graceful deletion and generated names. The
registry knows no HTTP: verbs of the API are methods, and patches arrive as functions of the old object.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from dra.kube.clock import Clock, rfc3339
from localplane import status_errors
from localplane.kinds import objectmeta
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import STATUS, DeleteOptions
from localplane.objects import Mutation, Object, decode, encode, metadata
from localplane.query_options import NO_WRITE_OPTIONS, WriteOptions
from localplane.routes import Route
from localplane.status_errors import FieldError, FieldErrorType, StatusError
from localplane.store import ObjectKey, Store, StoredObject

_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names, as upstream: no vowels, so no words."""

_RANDOM_LENGTH: Final = 5
_MAX_GENERATED_PREFIX: Final = 63 - _RANDOM_LENGTH
_MAX_NAME_GENERATION_ATTEMPTS: Final = 8
"""Maximum attempts to generate a name that is free, as upstream."""

_SYSTEM_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
"""Fields of metadata that only the system sets."""


class _OwnerReference(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 - the API's own names, as below
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _ObjectMeta(msgspec.Struct):
    """The types of the fields of ObjectMeta."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    generation: int | None = None
    creationTimestamp: datetime | None = None  # noqa: N815
    deletionTimestamp: datetime | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[_OwnerReference] | None = None  # noqa: N815
    managedFields: list[dict[str, Any]] | None = None  # noqa: N815


class ManagedFieldsUpdater(Protocol):
    """Maintains ``metadata.managedFields`` of written objects."""

    def update_managed_fields(
        self, route: Route, new: Object, old: Object | None, *, options: WriteOptions, time: datetime
    ) -> None:
        """Record in the new object the manager of each changed field."""
        ...


class Registry:
    """The registry of all objects: applies the rules of the API to each read and write."""

    def __init__(self, store: Store, *, clock: Clock, random: Random, tells_revisions: bool = False) -> None:
        """Create a registry; `tells_revisions`: the last update of an object shows the revision of its deletion."""
        self.store = store
        self._tells_revisions = tells_revisions
        self._clock = clock
        self._random = random
        self.field_manager: ManagedFieldsUpdater | None = None
        """Updater of ``managedFields``; None leaves the field as it is."""

    def get(self, route: Route) -> StoredObject:
        """Return an object; raises `StatusError` 404."""
        stored = self.store.get(self._key(route))
        if stored is None:
            raise status_errors.not_found(route.kind.plural, route.kind.group, route.name)
        return stored

    def exists(self, route: Route) -> bool:
        """Return whether an object of the route's name exists."""
        return self.store.get(self._key(route)) is not None

    def create(self, route: Route, obj: Object, *, options: WriteOptions = NO_WRITE_OPTIONS) -> bytes:
        """Create an object; return the stored bytes."""
        kind = route.kind
        if kind.is_virtual:
            return self._create_virtual(kind, obj)
        self._check_metadata(kind, obj)
        obj = kind.to_storage(obj)
        namespace = self._ensure_namespace(route, obj)
        meta = metadata(obj)
        if meta.get("resourceVersion") not in (None, "", "0"):
            raise status_errors.bad_request("resourceVersion should not be set on objects to be created")
        for system in _SYSTEM_METADATA:
            meta.pop(system, None)
        if not (meta.get("name") or meta.get("generateName")):
            raise self._missing_name_error(kind, obj)
        key = self._generate_key(kind, meta, namespace)
        if namespace:
            self._check_namespace(kind, key)
        meta["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = rfc3339(self._clock.wall())
        if kind.has_generation:
            meta["generation"] = 1
        kind.strategy.default(obj)
        kind.strategy.set_times(obj, self._clock.wall())
        kind.strategy.prepare_for_create(obj)
        causes = [*kind.strategy.admit(obj, self), *objectmeta.validate(kind, obj), *kind.strategy.validate(obj)]
        self._raise_if_invalid(kind, key.name, causes)
        if self.store.get(key) is not None:
            raise status_errors.already_exists(kind.plural, kind.group, key.name)
        self._update_managed_fields(route, obj, None, options)
        return encode(obj) if options.dry_run else self._write(key, obj).raw

    def update(self, route: Route, mutate: Mutation, *, options: WriteOptions = NO_WRITE_OPTIONS) -> bytes:
        """Update or patch an object or its subresource; return the stored bytes, the old ones after a no-op."""
        kind, stored, subresource = route.kind, self.get(route), route.subresource
        old = decode(stored.raw)
        if subresource is None or subresource is STATUS:
            new = mutate(decode(kind.from_storage(stored.raw)))
            self._check_metadata(kind, new)
            new = kind.to_storage(new)
            self._check_identity(route, new, old)
        else:
            new, shown = decode(stored.raw), mutate(subresource.read(decode(stored.raw)))
            self._check_metadata(kind, shown)
            self._check_identity(route, shown, old)
            subresource.write(new, shown)
        meta, before = metadata(new), metadata(old)
        for system in _SYSTEM_METADATA:
            if system in before:
                meta[system] = before[system]
            else:
                meta.pop(system, None)
        self._prepare_for_update(route, new, old)
        metadata(new)["resourceVersion"] = before["resourceVersion"]
        if kind.has_generation and _counted_by_generation(kind, new) != _counted_by_generation(kind, old):
            metadata(new)["generation"] = before.get("generation", 0) + 1
        check = kind.strategy.validate_update if subresource is None or subresource is STATUS else subresource.validate
        admitted = kind.strategy.admit_update(new, old, self) if subresource is None else []
        self._raise_if_invalid(kind, route.name, [*admitted, *objectmeta.validate_update(new, old), *check(new, old)])
        if new == old:
            return stored.raw
        self._update_managed_fields(route, new, old, options)
        if options.dry_run:
            return encode(new)
        if "deletionTimestamp" in before and self._can_be_removed(kind, new):
            last = encode(new)  # with the previous revision, as up to 1.37: this version was never stored
            removed = self._delete(stored.key, new)
            return removed if self._tells_revisions else last
        return self._write(stored.key, new).raw

    def _prepare_for_update(self, route: Route, new: Object, old: Object) -> None:
        """Let the strategy of the kind prepare a changed object."""
        strategy, subresource, managed_fields = (
            route.kind.strategy,
            route.subresource,
            metadata(new).get("managedFields"),
        )
        strategy.default(new)
        strategy.set_times(new, self._clock.wall())
        if subresource is STATUS:
            strategy.prepare_for_status_update(new, old)
        elif subresource is None:
            strategy.prepare_for_update(new, old)
            strategy.set_update_times(new, old, self._clock.wall())
        if managed_fields is not None:  # also for a status update, which keeps the old metadata
            metadata(new)["managedFields"] = managed_fields

    def delete(self, route: Route, options: DeleteOptions, *, dry_run: bool = False) -> tuple[bytes, bool]:
        """Delete an object; return its bytes, and False while the object waits for finalizers or its grace period."""
        kind, stored = route.kind, self.get(route)
        obj = decode(stored.raw)
        meta = metadata(obj)
        self._check_preconditions(route, meta, options)
        requested = options.grace_period_seconds
        grace = kind.strategy.grace_period_seconds(obj, requested if requested is None or requested >= 0 else 1)
        finalizers = _finalizers_after_delete(meta.get("finalizers") or [], options, default=kind.propagation_policy)
        if grace == 0 and not finalizers and not kind.strategy.blocks_deletion(obj):
            return (stored.raw if dry_run else self._delete(stored.key, obj)), True
        if finalizers != (meta.get("finalizers") or []):
            meta["finalizers"] = finalizers
        if "deletionTimestamp" not in meta or grace < meta.get("deletionGracePeriodSeconds", 0):
            began_at = self._clock.wall()
            if "deletionTimestamp" in meta:  # a shorter grace period also counts from the first request
                ends = datetime.fromisoformat(meta["deletionTimestamp"])
                began_at = ends - timedelta(seconds=meta.get("deletionGracePeriodSeconds", 0))
            meta["deletionTimestamp"] = rfc3339(began_at + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            kind.strategy.begin_deletion(obj)
            if meta.get("generation"):
                meta["generation"] += 1
        if obj == decode(stored.raw):
            return stored.raw, False
        return (encode(obj) if dry_run else self._write(stored.key, obj).raw), False

    def get_object(self, collection: str, name: str, *, namespace: str = "") -> Object | None:
        """Return an object for admission, None if there is none."""
        stored = self.store.get(ObjectKey(collection, namespace, name))
        return None if stored is None else decode(stored.raw)

    def list_objects(self, collection: str) -> Iterable[Object]:
        """Return all objects of a kind, for admission."""
        return [decode(stored.raw) for stored in self.store.snapshot(collection)]

    def create_subresource(self, route: Route, body: Object, *, options: WriteOptions = NO_WRITE_OPTIONS) -> Object:
        """Perform the action of a POST to a subresource, such as pods/binding; return the object's new metadata."""
        subresource, stored = route.subresource, self.get(route)
        assert subresource is not None  # noqa: S101 - the server routes
        old, new = decode(stored.raw), decode(stored.raw)
        result = subresource.create(new, body, objects=self, now=self._clock.wall())
        self._raise_if_invalid(route.kind, route.name, subresource.validate(new, old))
        dry_run = options.dry_run or result.dry_run
        if not dry_run:
            for collection, obj in result.changed:
                self._write(ObjectKey(collection, metadata(obj).get("namespace", ""), metadata(obj)["name"]), obj)
            if new != old:
                self._update_managed_fields(route, new, old, options)
                self._write(stored.key, new)
        if result.delete is not None:
            raw, _ = self.delete(Route(route.kind, route.namespace, route.name), result.delete, dry_run=dry_run)
            return metadata(decode(raw))
        return metadata(new)

    async def wait_for_revision(self, revision: int, *, within: float) -> None:
        """Wait until the store has reached a revision; raises `StatusError` 504 after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                await self.store.wait_for_revision(revision)
        except TimeoutError:
            raise status_errors.too_large_resource_version(revision, self.store.revision) from None

    def _create_virtual(self, kind: Kind, obj: Object) -> bytes:
        """Return an object of a virtual kind with its computed status; nothing is stored."""
        obj.setdefault("metadata", {})
        kind.strategy.default(obj)
        kind.strategy.prepare_for_create(obj)
        self._raise_if_invalid(kind, "", kind.strategy.validate(obj))
        return encode(obj)

    @staticmethod
    def _key(route: Route) -> ObjectKey:
        return ObjectKey(route.kind.collection, route.namespace, route.name)

    def _ensure_namespace(self, route: Route, obj: Object) -> str:
        """Set and return the namespace of a new object; raises `StatusError` if it contradicts the request."""
        meta = obj.setdefault("metadata", {})
        if not route.kind.namespaced:
            meta.pop("namespace", None)
            return ""
        if not route.namespace:
            raise status_errors.method_not_allowed()
        if (meta.get("namespace") or route.namespace) != route.namespace:
            raise status_errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = route.namespace
        return route.namespace

    @staticmethod
    def _missing_name_error(kind: Kind, obj: Object) -> StatusError:
        """Return 422 for an object without a name, with all other validation errors."""
        metadata(obj).update(name="", uid="")
        kind.strategy.default(obj)
        cause = FieldError(FieldErrorType.REQUIRED, "metadata.name", "Required value: name or generateName is required")
        return status_errors.invalid(kind.name, kind.group, "", [cause, *kind.strategy.validate(obj)])

    def _generate_key(self, kind: Kind, meta: Object, namespace: str) -> ObjectKey:
        """Return the key of a new object; generate the name if the object has none."""
        if meta.get("name"):
            return ObjectKey(kind.collection, namespace, meta["name"])
        prefix = meta["generateName"]
        for _ in range(_MAX_NAME_GENERATION_ATTEMPTS):
            meta["name"] = prefix[:_MAX_GENERATED_PREFIX] + "".join(
                self._random.choices(_NAME_ALPHABET, k=_RANDOM_LENGTH)
            )
            key = ObjectKey(kind.collection, namespace, meta["name"])
            if self.store.get(key) is None:
                break
        return key

    @staticmethod
    def _check_metadata(kind: Kind, obj: Object) -> None:
        """Validate the types of metadata, on which all rules of the registry rely; drop null fields."""
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        try:
            msgspec.convert(obj["metadata"], _ObjectMeta)
        except msgspec.ValidationError as error:
            raise status_errors.bad_request(
                f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: metadata: {error}'
            ) from None
        for name in [name for name, value in obj["metadata"].items() if value is None]:
            del obj["metadata"][name]

    def _check_namespace(self, kind: Kind, key: ObjectKey) -> None:
        """Refuse new objects in a namespace that does not exist or is being terminated."""
        stored = self.store.get(ObjectKey("namespaces", "", key.namespace))
        if stored is None:
            raise status_errors.not_found("namespaces", "", key.namespace)
        if b'"deletionTimestamp"' in stored.raw and "deletionTimestamp" in metadata(decode(stored.raw)):
            raise status_errors.namespace_terminating(kind.plural, kind.group, key.name, key.namespace)

    def _update_managed_fields(self, route: Route, new: Object, old: Object | None, options: WriteOptions) -> None:
        if self.field_manager is not None:
            self.field_manager.update_managed_fields(route, new, old, options=options, time=self._clock.wall())

    def _check_identity(self, route: Route, new: Object, old: Object) -> None:
        """Refuse a change of another name, namespace, uid or resourceVersion than the stored object has."""
        kind, meta, before = route.kind, new.setdefault("metadata", {}), metadata(old)
        name, namespace = meta.get("name") or route.name, meta.get("namespace") or route.namespace
        if name != route.name:
            raise status_errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({route.name})"
            )
        if namespace != route.namespace:
            raise status_errors.bad_request(
                f"the namespace of the object ({namespace}) does not match the namespace on the request "
                f"({route.namespace})"
            )
        meta["name"] = name
        if namespace:
            meta["namespace"] = namespace
        if meta.get("uid") not in (None, "", before["uid"]):
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
            raise status_errors.conflict(kind.plural, kind.group, route.name, why)
        if meta.get("resourceVersion") not in (None, "", "0", before["resourceVersion"]):
            raise status_errors.object_modified(kind.plural, kind.group, route.name)

    def _check_preconditions(self, route: Route, meta: Object, options: DeleteOptions) -> None:
        for what, wanted, actual in (
            ("UID", options.uid, meta["uid"]),
            ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
        ):
            if wanted is not None and wanted != actual:
                name = f"{what} in precondition: {wanted}, {what} in object meta: {actual}"
                raise status_errors.conflict(
                    route.kind.plural, route.kind.group, route.name, f"Precondition failed: {name}"
                )

    @staticmethod
    def _raise_if_invalid(kind: Kind, name: str, causes: list[FieldError]) -> None:
        if causes:
            raise status_errors.invalid(kind.name, kind.group, name, causes)

    @staticmethod
    def _can_be_removed(kind: Kind, obj: Object) -> bool:
        meta = metadata(obj)
        return (
            not meta.get("finalizers")
            and not meta.get("deletionGracePeriodSeconds")
            and not kind.strategy.blocks_deletion(obj)
        )

    def _write(self, key: ObjectKey, obj: Object) -> StoredObject:
        metadata(obj)["resourceVersion"] = str(self.store.next_revision)
        return self.store.put(key, encode(obj))

    def _delete(self, key: ObjectKey, obj: Object) -> bytes:
        metadata(obj)["resourceVersion"] = str(self.store.next_revision)
        return self.store.remove(key, encode(obj)).raw


_ORPHAN_FINALIZER: Final = "orphan"
_FOREGROUND_FINALIZER: Final = "foregroundDeletion"
_PROPAGATION_FINALIZERS: Final = {"Foreground": _FOREGROUND_FINALIZER, "Orphan": _ORPHAN_FINALIZER}
"""Finalizers that the garbage collector processes, by deletion propagation policy."""


def _finalizers_after_delete(present: list[str], options: DeleteOptions, *, default: str) -> list[str]:
    """Return the finalizers of a deleted object; the policy of the request overrides present finalizers."""
    if options.propagation_policy is not None:
        wanted = _PROPAGATION_FINALIZERS.get(options.propagation_policy)
    elif options.orphan_dependents is not None:
        wanted = _ORPHAN_FINALIZER if options.orphan_dependents else None
    elif any(finalizer in _PROPAGATION_FINALIZERS.values() for finalizer in present):
        return present
    else:
        wanted = _PROPAGATION_FINALIZERS.get(default)
    rest = [finalizer for finalizer in present if finalizer not in _PROPAGATION_FINALIZERS.values()]
    return [*rest, wanted] if wanted else rest


_UNCOUNTED_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})


def _counted_by_generation(kind: Kind, obj: Object) -> Object:
    """Return the fields whose changes increment `metadata.generation`.

    The status counts only for a kind without a status subresource.
    """
    uncounted = _UNCOUNTED_FIELDS | {STATUS.name} if STATUS in kind.subresources else _UNCOUNTED_FIELDS
    return {name: value for name, value in obj.items() if name not in uncounted}
