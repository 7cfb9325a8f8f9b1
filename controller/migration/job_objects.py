"""Reads of the pods, claims and Reservations of jobs, and writes of Reservations; the responses enter the cache."""

import logging
from typing import Final

from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.engine.migration.device_claims import claim_reach, named_claims
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.live_reads import LookedAtPod
from dra.engine.migration.plan import CreateReservation, DeleteReservation
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, UnreadableResponse
from dra.kube.resources import CLAIMS, PODS, RESERVATIONS
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key, Uid, UnstructuredObject

BAD_REQUEST: Final = 400
"""HTTP status for a Reservation that the API server cannot decode."""

FORBIDDEN_SECONDS: Final = 60.0
"""Seconds until a deletion that the API server forbade is tried again: the right may have been granted."""

_log: Final = logging.getLogger(__name__)


class JobObjects:
    """Reads what no watch shows, and creates and deletes Reservations."""

    def __init__(self, runtime: Runtime[DeschedulerMetrics], *, cache: JobCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def look_at_pod(self, key: Key) -> LookedAtPod | None:
        """Return a pod as the API server has it now; None if no pod has the name.

        Raises ApiError, also for a pod that is too large.
        """
        try:
            obj = await self._runtime.client.get(PODS, key, UnstructuredObject)
        except NotFound as error:
            if not error.is_about(key[1]):
                raise
            return None
        try:
            return LookedAtPod.of(obj)
        except ValueError as error:
            raise UnreadableResponse(PODS.describe(key), error) from error

    async def read_pod(self, uid: Uid, key: Key) -> None:
        """Read the pod of a job, or the pod in the job's Reservation, into the cache."""
        was_watched = self._cache.pods.by_key(key) is not None
        looked_at = await self.look_at_pod(key)
        is_own = self._cache.is_own_pod(uid, key)
        claims = await self._read_claims(looked_at.pod) if looked_at is not None and is_own else ()
        self._cache.observe_read_pod(
            uid, key, looked_at, claims=claims, was_watched=was_watched, now=self._runtime.instant()
        )

    async def _read_claims(self, pod: MigrationPod) -> tuple[ClaimReach, ...]:
        """Return the reach of the claims that a pod names; a Reservation has claims of its own from templates."""
        node = pod.spec.node_name
        return tuple([claim_reach(key, await self._find_claim(key), pod_node=node) for key in named_claims(pod)])

    async def _find_claim(self, key: Key) -> ResourceClaim | None:
        try:
            return await self._runtime.client.get(CLAIMS, key, WatchedClaim)
        except NotFound:
            return None

    # Reservations

    async def look_at_reservation(self, name: str) -> Reservation | None:
        """Return a Reservation as the API server has it now; None if it does not exist, or cannot be decoded."""
        try:
            return parse_reservation((await self._get_reservation(name)).content)
        except (NotFound, MalformedReservationError):
            return None

    async def read_reservation(self, uid: Uid, name: str) -> bool:
        """Read the Reservation of a job; return whether one exists that cannot be decoded, which counts as absent."""
        try:
            await self._get_reservation(name)
        except NotFound as error:
            if not error.is_about(name):
                raise
            self._cache.live(uid).reservation_gone = True
            return False
        is_malformed = not self._cache.has_reservation(name)
        self._cache.live(uid).reservation_gone = is_malformed
        return is_malformed

    async def create_reservation(self, uid: Uid, action: CreateReservation) -> None:
        """Create the Reservation of a job, and record a refusal for the next decision. Raises ApiError."""
        name = action.manifest["metadata"]["name"]
        try:
            made = await self._runtime.client.create(
                RESERVATIONS, action.manifest, model=UnstructuredObject, timeout_seconds=self._runtime.write_timeout()
            )
        except AlreadyExists:
            if await self.read_reservation(uid, name):
                text = f'Reservation "{name}" exists already, and has fields that cannot be read'
                self._cache.live(uid).create_error = text
            return
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            self._cache.live(uid).create_error = error.message or error.reason
            return
        self._cache.observe_reservation(made)

    async def delete_reservation(self, action: DeleteReservation) -> None:
        """Delete a Reservation; one that has changed is read, which makes its job due again. Raises ApiError."""
        try:
            await self._runtime.client.delete(
                RESERVATIONS,
                ("", action.name),
                uid=action.uid,
                resource_version=action.resource_version,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound as error:
            self._forget_reservation(action, error)
        except Conflict:
            try:
                await self._get_reservation(action.name)
            except NotFound as error:
                self._forget_reservation(action, error)
        except Forbidden as error:
            self._cache.keep_reservation(action.uid, until=self._runtime.instant() + FORBIDDEN_SECONDS)
            _log.warning("reservation %s: not deleted, trying again in a minute: %s", action.name, error)

    def _forget_reservation(self, action: DeleteReservation, error: NotFound) -> None:
        """Forget a Reservation that is gone; raise the error if the kind is not served, or not yet."""
        if not error.is_about(action.name):
            raise error
        self._cache.forget_reservation(action.name, action.uid)

    async def _get_reservation(self, name: str) -> UnstructuredObject:
        obj = await self._runtime.client.get(RESERVATIONS, ("", name), UnstructuredObject)
        self._cache.observe_reservation(obj)
        return obj
