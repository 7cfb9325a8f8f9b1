"""Reads ResourceClaims from the API server: the kubelet sends only identities, drivers need allocations and parameters.

Uses only the right that the node authorizer grants: GET of single claims that a pod of this node references. A claim
that cannot be read or does not fit is refused alone; the kubelet shows the text on the pod and retries.

All claims of a pod come in one call, and users decide how many they are and how large. So a claim leaves behind only
what its driver needs: its devices, its pods, and a limited number of bytes of parameters, as JSON
(`kubeletplugin.stored_claims`). Claims of an unusual size are read one at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from dra.kube.client import Client
from dra.kube.errors import ApiError, NotFound, ResponseTooLarge
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, InvalidNameError
from dra.model.meta import Uid
from kubeletplugin.contract import ClaimIdentity, OpaqueParameters, PodIdentity, PrepareError, PrepareRequest
from kubeletplugin.stored_claims import (
    EncodedParameters,
    StoredAllocation,
    StoredClaim,
    StoredConfiguration,
    StoredOpaqueConfiguration,
)

READ_TIMEOUT: Final = 20.0
"""Seconds for all reads of a call; the rest of the kubelet's 45 s is for the lock, the disk and the driver."""

MAX_CONCURRENT_READS: Final = 16
"""Maximum number of concurrent reads: each takes a connection, and opening one costs more than many reads over it."""

USUAL_SIZE: Final = 1 << 20
"""Bytes of a claim that is read beside others; a longer response is given up, and requested again alone."""

MAX_SIZE: Final = 8 << 20
"""Maximum bytes of a claim that is read alone. An API server stores one and a half megabytes, and writes some
characters as six."""

MAX_PARAMETERS_SIZE: Final = 64 << 10
"""Maximum bytes of the opaque parameters of one claim for one driver of the plugin, those of its DeviceClasses
included; the drivers' own parameters have less than a kilobyte."""

_SHOWN: Final = 40
"""Characters of malformed parameters that a message shows."""

_log: Final = logging.getLogger(__name__)

_SOURCE_PRECEDENCE: Final = {"FromClass": 0, "FromClaim": 1}
"""Precedence of ``config[].source``; the higher number overrides."""


class ClaimReader:
    """Reads claims from the API server for one driver of one node."""

    def __init__(
        self,
        client: Client,
        *,
        driver: str,
        pools: Callable[[], Collection[str]],
        within: float = READ_TIMEOUT,
    ) -> None:
        """Create a reader; `pools` returns the names of the pools whose devices this node has."""
        self._client = client
        self._driver = driver
        self._pools = pools
        self._within = within
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._large_turn = asyncio.Lock()

    async def read(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareRequest | PrepareError]:
        """Return the request of each claim, or the reason why the claim is refused.

        Each claim is read once, `MAX_CONCURRENT_READS` at a time.
        """
        once = {claim.uid: claim for claim in claims}
        if len(once) == 1:  # as nearly always: a kubelet makes a call for each pod
            return {uid: await self._read(claim) for uid, claim in once.items()}
        answers = await asyncio.gather(*(self._read(claim) for claim in once.values()))
        return dict(zip(once, answers, strict=True))

    async def _read(self, claim: ClaimIdentity) -> PrepareRequest | PrepareError:
        try:
            async with asyncio.timeout(self._within):
                stored = await self._stored(claim)
            return prepare_request(stored, claim, driver=self._driver, pools=self._pools())
        except PrepareError as refused:
            return refused.with_traceback(None)  # its frames would keep the whole claim
        except NotFound:
            text = "does not exist; a pod that uses it cannot start"
        except TimeoutError:
            text = f"the API server did not answer within {self._within:g} s; the kubelet retries"
        except InvalidNameError as error:
            text = str(error)
        except ResponseTooLarge as error:
            text = f"cannot be read: {error}; remove annotations, labels or parameters from the claim"
        except ApiError as error:
            text = f"cannot be read: {error}; the kubelet retries"
        except Exception as error:  # noqa: BLE001 - what no API server should say of a claim is that claim's affair alone
            _log.exception("%s: cannot be parsed", claim)
            text = f"cannot be parsed: {error!r}; see the plugin's log on this node"
        return PrepareError(f"{claim}: {text}")

    async def _stored(self, claim: ClaimIdentity) -> StoredClaim:
        async with self._turns:
            try:
                return await self._get(claim, max_bytes=USUAL_SIZE)
            except ResponseTooLarge:
                pass
        async with self._large_turn:
            return await self._get(claim, max_bytes=MAX_SIZE)

    async def _get(self, claim: ClaimIdentity, *, max_bytes: int) -> StoredClaim:
        return await self._client.get(
            CLAIMS,
            claim.key,
            StoredClaim,
            priority=RequestPriority.URGENT,
            timeout_seconds=self._within,
            max_bytes=max_bytes,
        )


def prepare_request(
    stored: StoredClaim, claim: ClaimIdentity, *, driver: str, pools: Collection[str]
) -> PrepareRequest:
    """Return a claim's request to a driver on the node with these pools; raises PrepareError."""
    if stored.metadata.uid != claim.uid:
        raise PrepareError(
            f"{claim}: was deleted, and another claim has its name (uid {stored.metadata.uid}); "
            "delete the pod, which was created for the old claim"
        )
    allocation = stored.status.allocation
    if allocation is None:
        raise PrepareError(
            f"{claim}: is not allocated; if this persists, delete the pod, which was bound without devices"
        )
    of_driver = [result for result in allocation.devices.results or () if result.driver == driver]
    if not of_driver:
        raise PrepareError(f"{claim}: has no device of driver {driver}")
    # A claim may have devices on several nodes; each node prepares those of its own pools.
    results = tuple(result.as_allocated() for result in of_driver if result.pool in pools)
    if not results:
        theirs = ", ".join(sorted({result.pool for result in of_driver}))
        raise PrepareError(
            f"{claim}: its devices of driver {driver} are in pool {theirs}, but this node has pool "
            f"{', '.join(sorted(pools))}; delete the pod, which was bound to the wrong node"
        )
    return PrepareRequest(
        claim=claim,
        results=results,
        configuration=driver_configuration(allocation, claim, driver),
        pods=tuple(
            PodIdentity(name=consumer.name, uid=consumer.uid)
            for consumer in stored.status.reserved_for or ()
            if consumer.resource == "pods" and not consumer.api_group
        ),
    )


def driver_configuration(
    allocation: StoredAllocation, claim: ClaimIdentity, driver: str
) -> tuple[OpaqueParameters, ...]:
    """Return the opaque parameters for a driver, lowest precedence first; raises PrepareError.

    Parameters of the claim override those of the class; within one source, the order of the allocation decides.
    """
    ours = [*_entries_of_driver(allocation.devices.config or (), driver)]
    size = sum(len(memoryview(opaque.parameters)) for _, opaque in ours)
    if size > MAX_PARAMETERS_SIZE:
        raise PrepareError(
            f"{claim}: its opaque parameters for driver {driver} have {size} bytes, the maximum is "
            f"{MAX_PARAMETERS_SIZE}; remove entries that no request needs from spec.devices.config of the claim and of "
            "its DeviceClass"
        )
    ours.sort(key=lambda entry: _SOURCE_PRECEDENCE.get(entry[0].source, 0))
    return tuple(_driver_parameters(entry, opaque, claim) for entry, opaque in ours)


def _entries_of_driver(
    entries: Iterable[StoredConfiguration], driver: str
) -> Iterator[tuple[StoredConfiguration, StoredOpaqueConfiguration]]:
    return ((entry, entry.opaque) for entry in entries if entry.opaque is not None and entry.opaque.driver == driver)


def _driver_parameters(
    entry: StoredConfiguration, opaque: StoredOpaqueConfiguration, claim: ClaimIdentity
) -> OpaqueParameters:
    encoded = bytes(opaque.parameters)  # a copy: the original is a view of the whole response
    if not encoded.startswith(b"{"):
        shown = encoded[:_SHOWN].decode(errors="replace") + ("…" if len(encoded) > _SHOWN else "")
        raise PrepareError(f"{claim}: its opaque parameters for driver {opaque.driver} are not an object: {shown}")
    return OpaqueParameters(requests=entry.requests or (), parameters=EncodedParameters(encoded))
