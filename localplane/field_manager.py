"""Maintains ``metadata.managedFields`` of applied objects: a changed field passes to the manager that changed it."""

from datetime import datetime

from dra.kube.clock import rfc3339
from localplane.codecs import CodecFactory
from localplane.objects import Mutation, Object, metadata
from localplane.patches import server_side_apply
from localplane.patches.server_side_apply import FieldManagerIdentity
from localplane.query_options import WriteOptions
from localplane.routes import Route

_MANAGED_FIELDS = "managedFields"


class FieldManager:
    """Records the managers of fields for writes other than server-side apply."""

    def __init__(self, codecs: CodecFactory) -> None:
        self._codecs = codecs

    def update_managed_fields(
        self, route: Route, new: Object, old: Object | None, *, options: WriteOptions, time: datetime
    ) -> None:
        """Record in the new object the manager of each changed field; server-side apply has recorded its own."""
        if options.is_apply:
            return
        if old is None or not metadata(old).get(_MANAGED_FIELDS):  # nearly all objects: nobody has applied them
            metadata(new).pop(_MANAGED_FIELDS, None)
            return
        part = route.subresource
        identity = FieldManagerIdentity(
            manager=options.field_manager or "unknown",
            api_version=route.kind.api_version,
            subresource=part.name if part is not None else "",
            time=rfc3339(time),
            has_status_subresource=route.kind.subresource("status") is not None,
        )
        server_side_apply.update_managed_fields(new, old, self._codecs.for_kind(route.kind).schema, identity)


def keep_managed_fields(mutate: Mutation) -> Mutation:
    """Return a mutation that keeps ``managedFields`` if the new object omits the field: clients may drop the field."""

    def change(old: Object) -> Object:
        record = (old.get("metadata") or {}).get(_MANAGED_FIELDS)
        new = mutate(old)
        meta = new.get("metadata")
        if record is not None and isinstance(meta, dict):
            meta.setdefault(_MANAGED_FIELDS, record)
        return new

    return change
