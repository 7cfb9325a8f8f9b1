"""What an object has besides itself: parts with paths of their own, and actions.

``status`` is a part that a kind's `Strategy` guards. Any other subresource shows the object in another form
(``deployments/scale``), takes only some of its fields (``namespaces/finalize``) or does something to it
(``pods/binding``, ``pods/eviction``).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from localplane.objects import Object
from localplane.status_errors import FieldError

PART_VERBS: Final = ("get", "patch", "update")
"""The verbs of a part of an object; an action has only ``create``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """DeleteOptions."""

    grace_seconds: int | None = None
    propagation: str | None = None
    orphan: bool | None = None
    uid: str | None = None
    revision: str | None = None


class Subresource:
    """A subresource; override `read` and `write` for a part, `act` for an action.

    All get private copies. A part is written by the rules of the whole: concurrency, generation and no-op writes; the
    checks of the kind's strategy are replaced by `validate`. Each may raise `Refusal`.
    """

    name: str = ""
    group: str = ""
    version: str = ""
    kind: str = ""
    """Of its bodies; empty where it is the object's own."""
    verbs: tuple[str, ...] = PART_VERBS

    def read(self, obj: Object) -> Object:
        """Return what GET shows of an object."""
        return obj

    def write(self, obj: Object, body: Object) -> None:
        """Change the object into what `body`, a changed form of what `read` returned, asks for."""
        raise NotImplementedError

    def act(self, obj: Object, body: Object, *, now: datetime) -> DeleteOptions | None:
        """Change the object as a POST of `body` asks; return how to delete it if that is the effect."""
        raise NotImplementedError

    def validate(self, new: Object, old: Object) -> list[FieldError]:
        """Return what is wrong with the changed object."""
        del new, old
        return []


class StatusSubresource(Subresource):
    """The status, which `Strategy.prepare_for_status_update` cuts out of what is written."""

    name = "status"


STATUS: Final = StatusSubresource()
"""The subresource of almost every kind."""
