"""Keeps ``metadata.managedFields`` of objects that somebody has applied: what changes elsewise changes its owner."""

from datetime import datetime

from dra.kube.clock import second_time
from dra.local.objects import Mutation, Object, metadata
from dra.local.options import Writing
from dra.local.patches import apply
from dra.local.patches.apply import Author
from dra.local.patches.bodies import Codecs
from dra.local.routes import Route

_FIELD = "managedFields"


class FieldOwners:
    """Notes who has written what."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs

    def note(self, route: Route, new: Object, old: Object | None, *, writing: Writing, at: datetime) -> None:
        """Note in the new object who has written what of it; an application has done so itself."""
        if writing.apply:
            return
        if old is None:
            metadata(new).pop(_FIELD, None)
            return
        part = route.subresource
        author = Author(
            manager=writing.manager or "unknown",
            api_version=route.kind.api_version,
            subresource=part.name if part is not None else "",
            time=second_time(at),
            status_apart=route.kind.subresource("status") is not None,
        )
        apply.note(new, old, self._codecs.of(route.kind).schema, author)


def carried(mutate: Mutation) -> Mutation:
    """Return a mutation that keeps the record if it says nothing of it: a client may have left it out."""

    def change(old: Object) -> Object:
        record = (old.get("metadata") or {}).get(_FIELD)
        new = mutate(old)
        meta = new.get("metadata")
        if record is not None and isinstance(meta, dict):
            meta.setdefault(_FIELD, record)
        return new

    return change
