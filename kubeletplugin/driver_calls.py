"""Calls of a driver on behalf of a claim: whatever a driver raises or returns, only that claim is refused."""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from kubeletplugin.contract import (
    PreparedClaim,
    PrepareError,
    PrepareRequest,
    Recheckable,
    Refreshable,
)

log = logging.getLogger(__name__)


class PrepareDriver(Protocol):
    """The part of `kubeletplugin.contract.Driver` that prepares and enforces claims."""

    @property
    def name(self) -> str:
        """The name of the driver."""
        ...

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the devices and container edits of a claim; raises PrepareError."""
        ...

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Bring the node to the state that all these prepared claims need; raises PrepareError."""
        ...


class DriverCalls:
    """The calls of one driver; all raise PrepareError, and nothing else."""

    def __init__(self, driver: PrepareDriver) -> None:
        self._driver = driver
        # Asked once: a look at all methods of a protocol costs as much as a small claim.
        self._refreshable = driver if isinstance(driver, Refreshable) else None
        self._recheckable = driver if isinstance(driver, Recheckable) else None

    @property
    def name(self) -> str:
        """The name of the driver."""
        return self._driver.name

    async def refresh(self) -> None:
        """Let the driver look at its devices again; raises PrepareError if it cannot tell what they are."""
        if self._refreshable is not None:
            with self._errors_refused():
                await self._refreshable.refresh()

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return a claim as the driver prepares it, with exactly the allocated devices; raises PrepareError."""
        with self._errors_refused(f"{request.claim}: "):
            prepared = _checkpoint_round_trip(self._driver.prepare(request, others))
            _verify_complete(prepared, request)
        return prepared

    def recheck(self, known: PreparedClaim) -> PreparedClaim:
        """Return a prepared claim as the driver makes it now, `known` itself if nothing has changed.

        Raises PrepareError if containers cannot use its devices.
        """
        if self._recheckable is None:
            return known
        with self._errors_refused(f"{known.claim}: "):
            now = self._recheckable.recheck(known)
            if now == known:  # nearly always, and a GPU's edits have hundreds of mounts
                return known
            now = _checkpoint_round_trip(now)
            if now.items != known.items or now.claim != known.claim:
                raise ValueError(f"prepared {known.items}, rechecked {now.items}")
        return now

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Let the driver bring the node to the state that all these prepared claims need; raises PrepareError."""
        with self._errors_refused():
            await self._driver.enforce(preparations)

    @contextlib.contextmanager
    def _errors_refused(self, subject: str = "") -> Iterator[None]:
        """Raise a driver's unexpected error as PrepareError, whose text begins with ``subject``."""
        try:
            yield
        except PrepareError:
            raise
        except Exception as error:
            log.exception("%sdriver %s failed", subject, self.name)
            raise PrepareError(f"{subject}driver {self.name} failed: {error!r}; see the plugin's log") from error


def verify_allocation_unchanged(known: PreparedClaim, request: PrepareRequest) -> None:
    """Raise PrepareError unless the devices of a prepared claim are still the allocated ones.

    A claim that was deallocated and allocated again keeps its uid. Containers may still use its former devices.
    """
    had, has = _prepared_devices(known), _allocated_devices(request)
    if had == has:
        return
    lost, new = (", ".join("/".join(filter(None, device)) for device in sorted(side)) for side in (had, has))
    raise PrepareError(
        f"{request.claim}: is prepared on this node with {lost}, but is now allocated {new}; "
        "delete all its pods on this node, this pod included"
    )


def _checkpoint_round_trip(prepared: PreparedClaim) -> PreparedClaim:
    """Return the prepared claim as the next process will read it: drivers see the same before and after a restart."""
    return msgspec.json.decode(msgspec.json.encode(prepared), type=PreparedClaim)


def _verify_complete(prepared: PreparedClaim, request: PrepareRequest) -> None:
    """Raise ValueError unless a driver's answer has the identity and exactly the allocated devices of the claim."""
    if prepared.claim != request.claim or _prepared_devices(prepared) != _allocated_devices(request):
        raise ValueError(
            f"allocated {sorted(_allocated_devices(request))}, prepared {sorted(_prepared_devices(prepared))}"
        )


def _prepared_devices(prepared: PreparedClaim) -> set[tuple[str, str, str]]:
    return {(device.pool, device.device, device.share) for device in prepared.devices}


def _allocated_devices(request: PrepareRequest) -> set[tuple[str, str, str]]:
    return {(result.pool, result.device, result.share_id or "") for result in request.results}
