"""Defines subresources: parts of objects with their own paths, and actions.

``status`` is a part that the kind's `Strategy` protects. Every other subresource converts the object to another type
(``deployments/scale``), writes only some fields (``namespaces/finalize``) or performs an action (``pods/binding``,
``pods/eviction``).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from localplane.objects import Object, ObjectLister
from localplane.status_errors import FieldError

PART_VERBS: Final = ("get", "patch", "update")
"""Verbs of a subresource that is a part of the object; an action has only ``create``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Options of a deletion: meta/v1 DeleteOptions."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The effects of an action besides the change of the object."""

    delete: DeleteOptions | None = None
    """Options of the deletion of the object; None keeps the object."""

    changed: tuple[tuple[str, Object], ...] = ()
    """Other objects that are written together with the object, each with its collection."""

    dry_run: bool = False
    """Whether the body of the action asks that nothing be written."""


class Subresource:
    """A subresource; override `read` and `write` for a part, `create` for an action.

    All methods get private copies. A write to a part follows the rules of the whole object: optimistic concurrency,
    generation and no-op writes; `validate` replaces the validation of the kind's strategy. Every method may raise
    `StatusError`.
    """

    name: str = ""
    group: str = ""
    version: str = ""
    kind: str = ""
    """Kind of the bodies; empty if the same as the object's."""
    verbs: tuple[str, ...] = PART_VERBS

    def read(self, obj: Object) -> Object:
        """Return the body of a GET response."""
        return obj

    def write(self, obj: Object, body: Object) -> None:
        """Change the object as `body` requests; `body` is a changed form of the result of `read`."""
        raise NotImplementedError

    def create(self, obj: Object, body: Object, *, objects: ObjectLister, now: datetime) -> ActionResult:
        """Change the object as a POST of `body` requests; return the other effects of the action."""
        raise NotImplementedError

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of the changed object."""
        del new, old
        return []


class StatusSubresource(Subresource):
    """The subresource ``status``: `Strategy.prepare_for_status_update` restores all other fields of the object."""

    name = "status"


STATUS: Final = StatusSubresource()
"""Subresource ``status``, which almost every kind has."""
