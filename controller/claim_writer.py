"""Writes claims to the API server, and updates the cache from each response.

Writes on a claim form a chain: the first carries the resourceVersion decided on, each next one the version just
returned, and every response enters the cache before the next decision. After a write whose response is lost, the claim
is read. Any failure ends the chain; nothing is repeated here: the claim is decided again with a newer view.
"""

import logging
from typing import Final

from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.engine.claims import patches
from dra.engine.claims.actions import AddEntries, ClaimWrite, Deallocate, DeleteClaim, PatchMetadata, SetReservedFor
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import ClaimView
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS
from dra.kube.store import ServerRestored, ServerRestoredError
from dra.model import annotations
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.resource_versions import is_older
from dra.requests.claim_patcher import ClaimPatcher
from dra.requests.deallocation_check import DeallocationReader

_WRITE_LABELS: Final[dict[type[ClaimWrite], str]] = {
    SetReservedFor: "SetReservedFor",
    AddEntries: "Enter",
    Deallocate: "Deallocate",
    PatchMetadata: "Annotate",
}
"""Values of the label ``write``, which alerts and dashboards use: independent of class names."""

_log: Final = logging.getLogger(__name__)


class ClaimWriter:
    """A writer of claims."""

    def __init__(self, runtime: Runtime[ControllerMetrics], *, cache: ClaimCache) -> None:
        self._runtime = runtime
        self._cache = cache
        self._deallocations = DeallocationReader(runtime.client, cache=cache, clock=runtime.clock)
        self._patcher = ClaimPatcher(runtime.client)

    async def write(self, write: ClaimWrite, view: ClaimView, before: ResourceClaim) -> ResourceClaim:
        """Make one write of the chain and return the claim after it; raise ApiError or BoundMeanwhileError.

        ``view`` is what the plan was made for, ``before`` the claim after the write before.
        """
        if isinstance(write, Deallocate):
            await self._deallocations.check(write)
        claim = await self._patch(write, view, before)
        self._runtime.metrics.claim_writes.labels(_WRITE_LABELS[type(write)]).inc()
        _log.debug("%s", patches.describe_write(write, view.claim))
        if isinstance(write, SetReservedFor):
            self._runtime.metrics.observe_listed(view, write, now=self._runtime.instant())
        return claim

    async def _patch(self, write: ClaimWrite, view: ClaimView, before: ResourceClaim) -> ResourceClaim:
        try:
            claim = await self._send(write, view, before)
        except Conflict:
            self._runtime.metrics.conflicts.inc()
            # The informer may be far behind the other writer: the next decision must not conflict for the same reason.
            newer = await self._read(view)
            if newer is not None:
                self._cache.observe_claim(newer, now=self._runtime.instant())
            raise
        except NotFound as error:
            if error.is_about(view.key[1]):
                self._cache.forget_claim(view.key, view.claim.metadata.uid)
            raise
        except ApiError as error:
            present = await self._read_after_unknown_outcome(error, view)
            if present is None:
                raise
            done = patches.is_written(write, before=before, after=present)
            self._cache.observe_claim(present, now=self._runtime.instant(), ours=done)
            if not done:
                raise
            _log.debug("%s: done nevertheless: %s", error, patches.describe_write(write, before))
            return present
        self._cache.observe_claim(claim, now=self._runtime.instant(), ours=True)
        return claim

    async def _send(self, write: ClaimWrite, view: ClaimView, before: ResourceClaim) -> ResourceClaim:
        waits = not patches.only_removes_entries(write, view.listed)
        priority = RequestPriority.URGENT if waits else RequestPriority.BULK
        return await self._patcher.patch(write, before, priority=priority, write_timeout=self._runtime.write_timeout)

    async def _read_after_unknown_outcome(self, error: ApiError, view: ClaimView) -> ResourceClaim | None:
        """Return the claim after a write of unknown outcome; None if its state remains unknown.

        Pods that the write listed must be resynced, and the finalizer must be removed with the allocation: no later
        plan would contain these steps.
        """
        if not error.is_outcome_unknown:
            return None
        try:
            return await self._read(view)
        except ApiError:
            return None

    async def _read(self, view: ClaimView) -> ResourceClaim | None:
        """Return the claim as it is now, None if it is gone.

        A live read cannot be older than the cache; if it is, the server was restored from a backup, and all writes
        would fail for ever.
        """
        known = self._cache.claim(view.key)
        try:
            claim = await self._runtime.client.get(CLAIMS, view.key, WatchedClaim, timeout_seconds=WRITE_TIMEOUT)
        except NotFound as error:
            if not error.is_about(view.key[1]):
                raise
            self._cache.forget_claim(view.key, view.claim.metadata.uid)
            return None
        annotations.trim_annotations(claim.metadata)  # the claim is compared with the cached one
        before, version = known.metadata.resource_version if known is not None else "", claim.metadata.resource_version
        if is_older(version, before):
            raise ServerRestoredError(ServerRestored(CLAIMS.describe(view.key), version, before))
        return claim

    async def delete(self, action: DeleteClaim) -> None:
        """Delete a claim that was generated for a pod; raise ApiError."""
        timeout = self._runtime.write_timeout()
        try:
            await self._runtime.client.delete(CLAIMS, action.claim, uid=action.uid, timeout_seconds=timeout)
        except Conflict:
            self._cache.forget_claim(action.claim, action.uid)
        except NotFound as error:
            if not error.is_about(action.claim[1]):
                raise
            self._cache.forget_claim(action.claim, action.uid)
