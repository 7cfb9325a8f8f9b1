"""Defines `Kind`, one kind in one version, and `Strategy`, by which a kind adds its rules to the common rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from dra.model.name_validation import NameFormat
from localplane.kinds.subresource import STATUS, Subresource
from localplane.objects import Object, ObjectLister, decode, encode
from localplane.schemas.schema import Schema
from localplane.status_errors import FieldError


class Strategy:
    """The rules of a kind (upstream: a registry's strategy). Methods may change `new` and `obj`, but never `old`.

    A write calls, in this order: `default`, `set_times`, `prepare_*`, `admit` (for a new object), the common rules,
    `validate*`; so validation gets the object that would be stored.
    """

    def default(self, obj: Object) -> None:
        """Set the defaults of absent fields."""

    def set_times(self, obj: Object, now: datetime) -> None:
        """Set absent timestamps whose default is the current time."""

    def set_update_times(self, new: Object, old: Object, now: datetime) -> None:
        """Set timestamps that must be renewed by an update."""

    def prepare_for_create(self, obj: Object) -> None:
        """Clear the fields that a creator must not set: the status of a kind with a status subresource.

        An empty status stays in the object, as clients expect: Go writes empty structs.
        """
        obj["status"] = {}

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Restore the fields that an update must not change: the status."""
        _keep_field(new, old, "status")

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Restore the fields that a status update must not change: all except the status."""
        status = new.get("status") or {}
        new.clear()
        new.update(old)
        new["status"] = status

    def admit(self, obj: Object, objects: ObjectLister) -> list[FieldError]:
        """Complete a new object from other objects (a pod's priority); return the errors that forbid its creation."""
        del obj, objects
        return []

    def admit_update(self, new: Object, old: Object, objects: ObjectLister) -> list[FieldError]:
        """Return the errors that forbid an update of the object because of other objects."""
        del new, old, objects
        return []

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of a new object."""
        del obj
        return []

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update of the object or of its status."""
        del old
        return self.validate(new)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support besides metadata.name and metadata.namespace.

        The names are the same for every object; absent values are empty.
        """
        del obj
        return {}

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of columns without a path, by column name."""
        del obj, now
        return {}

    def warnings(self, obj: Object) -> list[str]:
        """Return warnings for the writer of an object (``Warning`` headers)."""
        del obj
        return []

    def grace_period_seconds(self, obj: Object, requested: int | None) -> int:
        """Return the grace period of a deleted object in seconds; 0 removes the object at once."""
        del obj, requested
        return 0

    def begin_deletion(self, obj: Object) -> None:
        """Change an object whose graceful deletion begins."""

    def blocks_deletion(self, obj: Object) -> bool:
        """Return whether the kind holds a deleted object for another reason than finalizers and grace period."""
        del obj
        return False


class StorageConverter(Protocol):
    """Converts a kind's objects between the stored version and another one (``events.k8s.io``)."""

    def from_storage(self, obj: Object) -> Object:
        """Return a stored object in the converter's version."""
        ...

    def to_storage(self, obj: Object) -> Object:
        """Return an object of the converter's version in the stored version."""
        ...


class NoStatusStrategy(Strategy):
    """The strategy of kinds without a status subresource (ConfigMap, Lease, Event): all fields are written together."""

    def prepare_for_create(self, obj: Object) -> None:
        """Keep all fields of a new object."""

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Keep all fields of an updated object."""


def _keep_field(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


@dataclass(frozen=True, kw_only=True)
class PrinterColumn:
    """A column of ``kubectl get``; `path` is a JSONPath, or empty if the strategy computes the cell."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""


VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind in one version, with its strategy."""

    group: str = ""
    version: str = "v1"
    plural: str
    name: str
    """``kind`` of the objects."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = (STATUS,)
    verbs: tuple[str, ...] = VERBS
    strategy: Strategy = field(default_factory=Strategy)
    has_generation: bool = True
    """Whether ``metadata.generation`` counts the changes of all fields except metadata and status."""
    columns: tuple[PrinterColumn, ...] = ()
    """Columns of ``kubectl get``, including the name; empty for name and age."""
    name_format: NameFormat = NameFormat.SUBDOMAIN
    """Format of the objects' names."""
    allow_unconditional_update: bool = True
    """Whether an update may omit the resourceVersion; never for custom kinds."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines the kind."""
    propagation_policy: str = "Background"
    """Default propagation policy of deletions; ``Orphan`` for batch/v1 Jobs."""
    is_virtual: bool = False
    """Whether objects are answered and never stored, as access reviews."""
    singular_name: str = ""
    """Singular name, if different from the kind in lower case."""
    list_name: str = ""
    """``kind`` of lists, if different from the kind with suffix ``List``."""
    storage_collection: str = ""
    """Collection of the stored objects, if shared with another version of the kind."""
    schema: Schema | None = None
    """Schema of a custom kind; `schemas.builtin_schemas` has the schemas of built-in kinds."""
    converter: StorageConverter | None = None
    """Converter between this version and the stored one, None if equal; the strategy gets stored objects."""

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """Return the singular name, which kubectl accepts."""
        return self.singular_name or self.name.lower()

    @property
    def list_kind(self) -> str:
        """Return the ``kind`` of lists."""
        return self.list_name or f"{self.name}List"

    @property
    def group_resource(self) -> str:
        """Return the group-resource as kubectl writes it: ``jobs.batch``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        """Return a subresource by name, None if there is none."""
        return next((subresource for subresource in self.subresources if subresource.name == name), None)

    def to_storage(self, obj: Object) -> Object:
        """Return an object of this version in the stored version."""
        return obj if self.converter is None else self.converter.to_storage(obj)

    def from_storage(self, raw: bytes) -> bytes:
        """Return a stored object in this version."""
        return raw if self.converter is None else encode(self.converter.from_storage(decode(raw)))

    @property
    def collection(self) -> str:
        """Return the name of the collection in the store."""
        return self.storage_collection or self.group_resource
