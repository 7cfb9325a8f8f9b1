"""Reads and writes of the Reservations of jobs; each response enters the cache."""

import logging
from typing import Final

from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.plan import CreateReservation, DeleteReservation
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.resources import RESERVATIONS
from dra.model.meta import Uid, UnstructuredObject

BAD_REQUEST: Final = 400
"""HTTP status for a Reservation that the API server cannot decode."""

_log: Final = logging.getLogger(__name__)


class JobReservations:
    """Reads, creates and deletes the Reservations of jobs."""

    def __init__(self, runtime: Runtime[DeschedulerMetrics], *, cache: JobCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def look_at(self, name: str) -> Reservation | None:
        """Return a Reservation as the API server has it now; None if it does not exist, or cannot be decoded."""
        try:
            return parse_reservation((await self._read(name)).content)
        except (NotFound, MalformedReservationError):
            return None

    async def read(self, uid: Uid, name: str) -> bool:
        """Read the Reservation of a job; return whether one exists that cannot be decoded, which counts as absent."""
        try:
            await self._read(name)
        except NotFound as error:
            if not error.is_about(name):
                raise
            self._cache.live(uid).reservation_gone = True
            return False
        is_malformed = not self._cache.has_reservation(name)
        self._cache.live(uid).reservation_gone = is_malformed
        return is_malformed

    async def create(self, uid: Uid, action: CreateReservation) -> None:
        """Create the Reservation of a job, and record a refusal for the next decision. Raises ApiError."""
        name = action.manifest["metadata"]["name"]
        try:
            made = await self._runtime.client.create(
                RESERVATIONS, action.manifest, model=UnstructuredObject, timeout_seconds=self._runtime.write_timeout()
            )
        except AlreadyExists:
            if await self.read(uid, name):
                text = f'Reservation "{name}" exists already, and has fields that cannot be read'
                self._cache.live(uid).create_error = text
            return
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            self._cache.live(uid).create_error = error.message or error.reason
            return
        self._cache.observe_reservation(made)

    async def delete(self, action: DeleteReservation) -> None:
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
            self._forget(action, error)
        except Conflict:
            try:
                await self._read(action.name)
            except NotFound as error:
                self._forget(action, error)
        except Forbidden as error:
            self._cache.keep_reservation(action.uid)
            _log.warning("reservation %s: not deleted, and not tried again: %s", action.name, error)

    def _forget(self, action: DeleteReservation, error: NotFound) -> None:
        """Forget a Reservation that is gone; raise the error if the kind is not served, or not yet."""
        if not error.is_about(action.name):
            raise error
        self._cache.forget_reservation(action.name, action.uid)

    async def _read(self, name: str) -> UnstructuredObject:
        obj = await self._runtime.client.get(RESERVATIONS, ("", name), UnstructuredObject)
        self._cache.observe_reservation(obj)
        return obj
