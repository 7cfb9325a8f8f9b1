"""Reading and writing objects: the rules that all kinds obey, around the strategy of each.

Optimistic concurrency, no-op writes, generation, finalizers, graceful deletion, generated names. Knows no HTTP: verbs
of the API are methods here, patches arrive as functions of the old object.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final
from uuid import UUID

from dra.kube.clock import Clock, second_time
from dra.local import refusals
from dra.local.kinds import objectmeta
from dra.local.kinds.kind import Kind
from dra.local.kinds.subresource import STATUS, Deletion
from dra.local.objects import Mutation, Object, decode, encode, metadata
from dra.local.refusals import Cause, Fault, Refusal
from dra.local.routes import Route
from dra.local.store import Key, Store, Stored

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's letters of generated names: no vowels, so no words."""

_SUFFIX: Final = 5


class Registry:
    """All objects, behind the rules of the API."""

    def __init__(self, store: Store, *, clock: Clock, chance: Random) -> None:
        self.store = store
        self._clock = clock
        self._chance = chance

    def get(self, route: Route) -> Stored:
        """Return an object; raises `Refusal` 404."""
        found = self.store.get(self._key(route))
        if found is None:
            raise refusals.not_found(route.kind.plural, route.kind.group, route.name)
        return found

    def create(self, route: Route, obj: Object, *, dry_run: bool = False) -> bytes:
        """Create an object; returns it as stored."""
        kind = route.kind
        if kind.transient:
            return self._answer(kind, obj)
        obj = kind.stored(obj)
        self._name(route, obj)
        meta = metadata(obj)
        key = Key(kind.collection, meta.get("namespace", ""), meta["name"])
        if self.store.get(key) is not None:
            raise refusals.already_exists(kind.plural, kind.group, key.name)
        if key.namespace and self.store.get(Key("namespaces", "", key.namespace)) is None:
            raise refusals.not_found("namespaces", "", key.namespace)
        for system in ("uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(system, None)
        meta["uid"] = str(UUID(int=self._chance.getrandbits(128), version=4))
        meta["creationTimestamp"] = second_time(self._clock.wall())
        if kind.generations:
            meta["generation"] = 1
        kind.strategy.default(obj)
        kind.strategy.prepare_create(obj)
        causes = [*kind.strategy.admit(obj, self), *objectmeta.validate(kind, obj), *kind.strategy.validate(obj)]
        self._refuse(kind, key.name, causes)
        if dry_run:
            return encode(obj)
        return self._put(key, obj).raw

    def change(self, route: Route, mutate: Mutation, *, dry_run: bool = False) -> bytes:
        """Update or patch an object or its status; returns it as stored, the old bytes if nothing has changed."""
        kind, stored = route.kind, self.get(route)
        old = decode(stored.raw)
        part = route.subresource
        if part is None or part is STATUS:
            new = kind.stored(mutate(decode(kind.shown(stored.raw))))
            self._check_identity(route, new, old)
        else:
            new, shown = decode(stored.raw), mutate(part.read(decode(stored.raw)))
            self._check_identity(route, shown, old)
            part.write(new, shown)
        meta, before = metadata(new), metadata(old)
        for system in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            if system in before:
                meta[system] = before[system]
            else:
                meta.pop(system, None)
        kind.strategy.default(new)
        if part is STATUS:
            kind.strategy.prepare_status(new, old)
        elif part is None:
            kind.strategy.prepare_update(new, old)
        metadata(new)["resourceVersion"] = before["resourceVersion"]
        if kind.generations and _contents(new) != _contents(old):
            metadata(new)["generation"] = before.get("generation", 0) + 1
        check = kind.strategy.validate_update if part is None or part is STATUS else part.validate
        self._refuse(kind, route.name, [*objectmeta.validate_update(new, old), *check(new, old)])
        if new == old:
            return stored.raw
        if dry_run:
            return encode(new)
        if "deletionTimestamp" in before and self._may_go(kind, new):
            return self._remove(stored.key, new)
        return self._put(stored.key, new).raw

    def delete(self, route: Route, deletion: Deletion, *, dry_run: bool = False) -> tuple[bytes, bool]:
        """Delete an object; returns it and whether it is gone, or waits for its finalizers or its grace period."""
        kind, stored = route.kind, self.get(route)
        obj = decode(stored.raw)
        meta = metadata(obj)
        self._check_preconditions(route, meta, deletion)
        grace = kind.strategy.grace_seconds(obj, deletion.grace_seconds)
        if finalizer := _PROPAGATION.get(deletion.propagation or ""):
            meta["finalizers"] = sorted({*meta.get("finalizers", ()), finalizer})
        if grace == 0 and not meta.get("finalizers") and not kind.strategy.held(obj):
            return (stored.raw if dry_run else self._remove(stored.key, obj)), True
        if "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds", 0) <= grace:
            return stored.raw, False
        meta["deletionTimestamp"] = second_time(self._clock.wall())
        meta["deletionGracePeriodSeconds"] = grace
        kind.strategy.deleting(obj)
        if kind.generations:
            meta["generation"] = meta.get("generation", 0) + 1
        return (encode(obj) if dry_run else self._put(stored.key, obj).raw), False

    def find(self, collection: str, name: str, *, namespace: str = "") -> Object | None:
        """Return an object for admission, if there is one."""
        found = self.store.get(Key(collection, namespace, name))
        return None if found is None else decode(found.raw)

    def every(self, collection: str) -> Iterable[Object]:
        """Return all objects of a kind, for admission."""
        return [decode(each.raw) for each in self.store.snapshot(collection)]

    def act(self, route: Route, body: Object, *, dry_run: bool = False) -> None:
        """Do what a POST to a subresource asks for."""
        part, stored = route.subresource, self.get(route)
        assert part is not None  # noqa: S101 - the server routes
        old, new = decode(stored.raw), decode(stored.raw)
        deletion = part.act(new, body, now=self._clock.wall())
        self._refuse(route.kind, route.name, part.validate(new, old))
        if deletion is not None:
            self.delete(Route(route.kind, route.namespace, route.name), deletion, dry_run=dry_run)
        elif new != old and not dry_run:
            self._put(stored.key, new)

    async def settled(self, kind: Kind, revision: int, *, within: float) -> None:
        """Return once the store has reached a revision; raises `Refusal` 504 when that takes too long."""
        try:
            async with asyncio.timeout(within):
                while self.store.revision < revision:
                    await self.store.change(kind.collection, self.store.revision)
        except TimeoutError:
            message = f"Timeout: Too large resource version: {revision}, current: {self.store.revision}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            raise Refusal(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}) from None

    def _answer(self, kind: Kind, obj: Object) -> bytes:
        """Return a question with its answer."""
        obj.setdefault("metadata", {})
        kind.strategy.default(obj)
        kind.strategy.prepare_create(obj)
        self._refuse(kind, "", kind.strategy.validate(obj))
        return encode(obj)

    @staticmethod
    def _key(route: Route) -> Key:
        return Key(route.kind.collection, route.namespace, route.name)

    def _name(self, route: Route, obj: Object) -> None:
        """Put the name and the namespace of a new object in order."""
        meta = obj.setdefault("metadata", {})
        if route.kind.namespaced:
            if meta.setdefault("namespace", route.namespace) != route.namespace:
                raise refusals.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
        else:
            meta.pop("namespace", None)
        if not meta.get("name"):
            prefix = meta.get("generateName")
            if not prefix:
                cause = Cause(Fault.REQUIRED, "metadata.name", "Required value: name or generateName is required")
                raise refusals.invalid(route.kind.name, route.kind.group, "", [cause])
            meta["name"] = prefix + "".join(self._chance.choices(_ALPHABET, k=_SUFFIX))

    def _check_identity(self, route: Route, new: Object, old: Object) -> None:
        """Refuse a change that was decided on another version or on another object of the name."""
        kind, meta, before = route.kind, new.setdefault("metadata", {}), metadata(old)
        if meta.get("name", route.name) != route.name:
            raise refusals.bad_request("the name of the object does not match the name on the URL")
        meta["name"] = route.name
        if meta.get("uid") not in (None, "", before["uid"]):
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
            raise refusals.conflict(kind.plural, kind.group, route.name, why)
        if meta.get("resourceVersion") not in (None, "", "0", before["resourceVersion"]):
            raise refusals.modified(kind.plural, kind.group, route.name)

    def _check_preconditions(self, route: Route, meta: Object, deletion: Deletion) -> None:
        for what, wanted, found in (
            ("UID", deletion.uid, meta["uid"]),
            ("ResourceVersion", deletion.revision, meta["resourceVersion"]),
        ):
            if wanted is not None and wanted != found:
                name = f"{what} in precondition: {wanted}, {what} in object meta: {found}"
                raise refusals.conflict(route.kind.plural, route.kind.group, route.name, f"Precondition failed: {name}")

    @staticmethod
    def _refuse(kind: Kind, name: str, causes: list[Cause]) -> None:
        if causes:
            raise refusals.invalid(kind.name, kind.group, name, causes)

    @staticmethod
    def _may_go(kind: Kind, obj: Object) -> bool:
        meta = metadata(obj)
        return not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds") and not kind.strategy.held(obj)

    def _put(self, key: Key, obj: Object) -> Stored:
        metadata(obj)["resourceVersion"] = str(self.store.next_revision)
        return self.store.put(key, encode(obj))

    def _remove(self, key: Key, obj: Object) -> bytes:
        metadata(obj)["resourceVersion"] = str(self.store.next_revision)
        return self.store.remove(key, encode(obj)).raw


_PROPAGATION: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
"""Finalizers by which the garbage collector knows how to proceed."""

_BESIDES: Final = frozenset({"metadata", "status", "kind", "apiVersion"})


def _contents(obj: Object) -> Object:
    """Return what `metadata.generation` counts the changes of."""
    return {name: value for name, value in obj.items() if name not in _BESIDES}
