"""The dispatch of a reflector's changes to functions, as client-go's ResourceEventHandlerFuncs does it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dra.kube.codec import ApiObject
from dra.kube.store import Change, Deleted, ServerRestored, ServerRestoredError, Synced, Upserted

T = TypeVar("T", bound=ApiObject)


def ignore(_: object) -> None:
    """Do nothing: for changes that a component need not handle."""


def end_process(restored: ServerRestored) -> None:
    """Raise ServerRestoredError: for components that remember more than the reflector's store."""
    raise ServerRestoredError(restored)


def _no_batch_end() -> None:
    """Do nothing at the end of a batch."""


@dataclass(slots=True, kw_only=True)
class EventHandlerFuncs(Generic[T]):
    """Calls one function for each change of a batch, in order."""

    on_upsert: Callable[[T], object]
    """Called with an object that is new or has changed."""

    on_delete: Callable[[T], object] = ignore
    """Called with the last known state of an object that is certainly deleted."""

    on_leave: Callable[[T], object] | None = None
    """Called with an object that left the selection and may still exist; by default, such an object is deleted."""

    on_sync: Callable[[Synced], object] = ignore
    """Called at the end of each list."""

    on_restore: Callable[[ServerRestored], object] = end_process
    """Called when the API server was restored from a backup."""

    on_batch_end: Callable[[], object] = _no_batch_end
    """Called once after each batch, whatever the batch contains, unless a function raised an exception."""

    def __call__(self, changes: list[Change[T]]) -> None:
        """Handle a batch of changes."""
        for change in changes:
            if isinstance(change, Upserted):
                self.on_upsert(change.obj)
            elif isinstance(change, Deleted):
                if change.certain or self.on_leave is None:
                    self.on_delete(change.obj)
                else:
                    self.on_leave(change.obj)
            elif isinstance(change, Synced):
                self.on_sync(change)
            else:
                self.on_restore(change)
        self.on_batch_end()
