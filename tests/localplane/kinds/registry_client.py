"""Writes objects through a registry, as requests would."""

from datetime import UTC, datetime
from random import Random

from dra.model.releases import NEWEST
from localplane.kinds import core, priority_classes
from localplane.kinds.builtin import builtin_kinds
from localplane.kinds.catalog import Catalog
from localplane.kinds.subresource import DeleteOptions
from localplane.objects import decode, encode
from localplane.registry import Registry
from localplane.routes import Route
from localplane.status_errors import StatusError
from localplane.store import Store

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Noon:
    """A clock that stands."""

    def now(self):
        return 0.0

    def wall(self):
        return NOON


class RegistryClient:
    """A registry with the namespace ``default``."""

    def __init__(self, release=NEWEST):
        self.catalog = Catalog(builtin_kinds(release))
        self.registry = Registry(Store(), clock=Noon(), random=Random(1))  # noqa: S311 - names and uids
        for obj in (core.new_namespace("default"), *priority_classes.SYSTEM_PRIORITY_CLASSES):
            self.create(obj)

    def route(self, obj, part=""):
        kind = self.catalog.kind_of(obj)
        meta = obj["metadata"]
        namespace = meta.get("namespace", "default") if kind.namespaced else ""
        return Route(kind, namespace, meta.get("name", ""), kind.subresource(part) if part else None)

    def create(self, obj):
        return decode(self.registry.create(self.route(obj), decode(encode(obj))))

    def update(self, obj, mutate, part=""):
        def mutation(old):
            mutate(old)
            return old

        return decode(self.registry.update(self.route(obj, part), mutation))

    def create_subresource(self, obj, part, body):
        self.registry.create_subresource(self.route(obj, part), body)
        return self.get(obj)

    def delete(self, obj, **options):
        return self.registry.delete(self.route(obj), DeleteOptions(**options))

    def table_cells(self, obj, now=NOON):
        return self.catalog.kind_of(obj).strategy.table_cells(self.get(obj), now=now)

    def get(self, obj):
        return decode(self.registry.get(self.route(obj)).raw)


def refused(write, *args, **kwargs):
    """Return what a write is refused for, empty when it is not."""
    try:
        write(*args, **kwargs)
    except StatusError as refusal:
        if refusal.details and "causes" in refusal.details:
            return [
                f"{cause['field']}: {cause['message']}" if "field" in cause else cause["message"]
                for cause in refusal.details["causes"]
            ]
        return [refusal.message]
    return []
