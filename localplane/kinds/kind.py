"""One kind in one version, and the seam where its own rules plug into those that all objects obey."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from localplane.kinds.name_validation import NameFormat
from localplane.kinds.subresource import STATUS, Subresource
from localplane.objects import Object, decode, encode
from localplane.schemas.schema import Schema
from localplane.status_errors import FieldError


class ObjectLister(Protocol):
    """What admission may ask for: other objects, as they are now; never to be changed."""

    def find(self, collection: str, name: str, *, namespace: str = "") -> Object | None:
        """Return one object."""
        ...

    def every(self, collection: str) -> Iterable[Object]:
        """Return all objects of a kind, in all namespaces."""
        ...


class Strategy:
    """The rules of a kind (upstream: a registry's strategy). All methods may change `new`/`obj`, none may change `old`.

    The order of a write: `default`, `stamp`, `prepare_*`, `admit` (of a new object), the rules for all objects,
    `validate*`; so validation sees what would be stored.
    """

    def default(self, obj: Object) -> None:
        """Fill in what the user left out."""

    def stamp(self, obj: Object, now: datetime) -> None:
        """Write the time of day where it is the default."""

    def set_update_times(self, new: Object, old: Object, now: datetime) -> None:
        """Write the time of day where a change asks for it."""

    def prepare_for_create(self, obj: Object) -> None:
        """Empty what a creator may not set: the status, of a kind that has it as a subresource.

        It is there all the same, as clients expect: Go writes a struct even when it is empty.
        """
        obj["status"] = {}

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Take back what a normal update may not change: the status."""
        _keep_field(new, old, "status")

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Take back what a status update may not change: all but the status."""
        status = new.get("status") or {}
        new.clear()
        new.update(old)
        new["status"] = status

    def admit(self, obj: Object, others: ObjectLister) -> list[FieldError]:
        """Finish a new object with what only other objects tell (a pod's priority); return why it may not be made."""
        del obj, others
        return []

    def validate(self, obj: Object) -> list[FieldError]:
        """Return what is wrong with a new object."""
        del obj
        return []

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return what is wrong with a change, of the object or of its status."""
        del old
        return self.validate(new)

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values that field selectors may ask for, besides metadata.name and metadata.namespace.

        The same names for every object; absent values are empty.
        """
        del obj
        return {}

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of the columns that have no path, by the name of the column."""
        del obj, now
        return {}

    def warnings(self, obj: Object) -> list[str]:
        """Return warnings for who writes this object (``Warning`` headers)."""
        del obj
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """Return how long a deleted object stays, in seconds; 0 removes it at once."""
        del obj, asked
        return 0

    def deleting(self, obj: Object) -> None:
        """Note in the object that its deletion has begun."""

    def held(self, obj: Object) -> bool:
        """Whether a deleted object stays for a reason of its kind's own, besides finalizers and grace."""
        del obj
        return False


class StorageConverter(Protocol):
    """Another form of a kind's objects than the stored one (``events.k8s.io``)."""

    def show(self, obj: Object) -> Object:
        """Return a stored object in this form."""
        ...

    def store(self, obj: Object) -> Object:
        """Return an object of this form as it is stored."""
        ...


class NoStatusStrategy(Strategy):
    """Of kinds without a status subresource: everything is written together (ConfigMap, Lease, Event)."""

    def prepare_for_create(self, obj: Object) -> None:
        """Keep all."""

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Keep all."""


def _keep_field(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


@dataclass(frozen=True, kw_only=True)
class PrinterColumn:
    """A column of ``kubectl get``; `path` is a JSONPath, or the strategy computes the cell."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""


VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind in one version."""

    group: str = ""
    version: str = "v1"
    plural: str
    name: str
    """``kind`` of its objects."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = (STATUS,)
    verbs: tuple[str, ...] = VERBS
    strategy: Strategy = field(default_factory=Strategy)
    generations: bool = True
    """Whether ``metadata.generation`` counts the changes of everything but metadata and status."""
    columns: tuple[PrinterColumn, ...] = ()
    """Of ``kubectl get``, the name's included; none means name and age."""
    naming: NameFormat = NameFormat.SUBDOMAIN
    """What its names look like."""
    allow_unconditional_update: bool = True
    """Whether an update may come without a resourceVersion; never for custom kinds."""
    custom: bool = False
    """Whether a definition made it, so it is no part of the server."""
    propagation: str = "Background"
    """What becomes of the dependents of a deleted one when the request does not say; ``Orphan`` for batch/v1 Jobs."""
    is_virtual: bool = False
    """Whether its objects are questions that are answered and never stored."""
    singular_name: str = ""
    """The name of one of them, if it is not that of the kind in small letters."""
    list_name: str = ""
    """``kind`` of a list of them, if it is not that of the kind with ``List`` behind it."""
    storage: str = ""
    """The collection its objects lie in; several versions of a kind share one."""
    schema: Schema | None = None
    """What its objects look like, of a custom kind; the built-in ones are found in `schemas.structures`."""
    form: StorageConverter | None = None
    """How this version's objects differ from the stored ones; the strategy sees stored ones."""

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The name kubectl accepts for one of them."""
        return self.singular_name or self.name.lower()

    @property
    def list_kind(self) -> str:
        """``kind`` of a list of its objects."""
        return self.list_name or f"{self.name}List"

    @property
    def label(self) -> str:
        """The group-resource as kubectl writes it: ``jobs.batch``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        """Return one of its subresources."""
        return next((each for each in self.subresources if each.name == name), None)

    def stored(self, obj: Object) -> Object:
        """Return an object of this version as it is stored."""
        return obj if self.form is None else self.form.store(obj)

    def shown(self, raw: bytes) -> bytes:
        """Return a stored object as this version shows it."""
        return raw if self.form is None else encode(self.form.show(decode(raw)))

    @property
    def collection(self) -> str:
        """The key of its objects in the store."""
        return self.storage or self.label
