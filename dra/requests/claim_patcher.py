"""Sending of claim writes: as a patch, or in protobuf for claims that the API server does not let be patched."""

from collections.abc import Callable
from typing import Final

from dra.engine.claims import patches
from dra.engine.claims.actions import AddEntries, ClaimWrite, SetReservedFor
from dra.kube.client import Client
from dra.kube.errors import Conflict, Invalid, Status
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Uid

_NEVER_PATCHED: Final = ("spec", "status.allocation")
"""Fields that no patch of the controller changes: an objection to them indicates the case of
`dra.kube.protobuf_claim`."""


class ClaimPatcher:
    """A sender of claim writes; each is a compare-and-swap on the version that was decided on, except `AddEntries`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._unpatchable: set[Uid] = set()
        """Claims that the API server does not let be patched; see `dra.kube.protobuf_claim`."""

    async def patch(
        self, write: ClaimWrite, before: ResourceClaim, *, priority: RequestPriority, write_timeout: Callable[[], float]
    ) -> ResourceClaim:
        """Return the claim after the write; raise ApiError. ``write_timeout`` returns how long a request may take."""
        key, uid = before.metadata.key, before.metadata.uid
        if isinstance(write, AddEntries):
            if uid not in self._unpatchable:
                return await self._add_entries(write, before, priority=priority, timeout_seconds=write_timeout())
            write = SetReservedFor(claim=key, entries=patches.apply_write(before, write).entries)
        body, subresource = patches.merge_patch_of(write), patches.subresource(write)

        async def rewrite() -> ResourceClaim:
            return await self._client.update_as_protobuf(
                CLAIMS,
                key,
                body,
                before=before,
                subresource=subresource,
                priority=priority,
                timeout_seconds=write_timeout(),
            )

        if uid in self._unpatchable:
            return await rewrite()
        try:
            return await self._client.merge_patch(
                CLAIMS,
                key,
                body,
                model=WatchedClaim,
                subresource=subresource,
                resource_version=before.metadata.resource_version,
                uid=uid,
                priority=priority,
                timeout_seconds=write_timeout(),
            )
        except Invalid as error:
            if not any(error.has_field_cause(field) for field in _NEVER_PATCHED) or error.has_cause(
                "FieldValueForbidden"
            ):
                raise
            claim = await rewrite()
        self._unpatchable.add(uid)
        return claim

    async def _add_entries(
        self, write: AddEntries, before: ResourceClaim, *, priority: RequestPriority, timeout_seconds: float
    ) -> ResourceClaim:
        """Return the claim with these entries added; an objection results from a concurrent change of the claim."""
        subresource = patches.subresource(write)
        try:
            if patches.is_merged_by_uid(write):
                return await self._client.merge_patch(
                    CLAIMS,
                    write.claim,
                    patches.merge_patch_of(write),
                    model=WatchedClaim,
                    subresource=subresource,
                    uid=before.metadata.uid,
                    priority=priority,
                    timeout_seconds=timeout_seconds,
                    strategic=True,
                )
            return await self._client.json_patch(
                CLAIMS,
                write.claim,
                patches.entries_json_patch(write, before),
                model=WatchedClaim,
                subresource=subresource,
                priority=priority,
                timeout_seconds=timeout_seconds,
            )
        except Invalid as error:
            status = Status(code=409, reason="Conflict", message=error.message)
            raise Conflict(CLAIMS.describe(write.claim), status) from error
