"""Reads ResourceClaims from the API server: the kubelet sends only identities, drivers need allocations and parameters.

Uses only the right that the node authorizer grants: GET of single claims that a pod of this node references. A claim
that cannot be read or does not fit is refused alone; the kubelet shows the text on the pod and retries.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from dra.kube.client import Client
from dra.kube.errors import ApiError, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, InvalidNameError
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Uid
from kubeletplugin.contract import ClaimIdentity, OpaqueParameters, PodIdentity, PrepareError, PrepareRequest

READ_TIMEOUT: Final = 20.0
"""Seconds for all reads of a call; the rest of the kubelet's 45 s is for the lock, the disk and the driver."""

MAX_CONCURRENT_READS: Final = 16
"""Maximum number of concurrent reads: each takes a connection, and opening one costs more than many reads over it."""

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

    async def read(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareRequest | PrepareError]:
        """Return the request of each claim, or the reason why the claim is refused.

        Each claim is read once, `MAX_CONCURRENT_READS` at a time.
        """
        once = {claim.uid: claim for claim in claims}
        answers = await asyncio.gather(*(self._read(claim) for claim in once.values()))
        return dict(zip(once, answers, strict=True))

    async def _read(self, claim: ClaimIdentity) -> PrepareRequest | PrepareError:
        try:
            async with asyncio.timeout(self._within), self._turns:
                found = await self._client.get(
                    CLAIMS, claim.key, ResourceClaim, priority=RequestPriority.URGENT, timeout_seconds=self._within
                )
            return prepare_request(found, claim, driver=self._driver, pools=self._pools())
        except PrepareError as refused:
            return refused
        except NotFound:
            text = "does not exist; a pod that uses it cannot start"
        except TimeoutError:
            text = f"the API server did not answer within {self._within:g} s; the kubelet retries"
        except InvalidNameError as error:
            text = str(error)
        except ApiError as error:
            text = f"cannot be read: {error}; the kubelet retries"
        except Exception as error:  # noqa: BLE001 - what no API server should say of a claim is that claim's affair alone
            _log.exception("%s: cannot be parsed", claim)
            text = f"cannot be parsed: {error!r}; see the plugin's log on this node"
        return PrepareError(f"{claim}: {text}")


def prepare_request(
    found: ResourceClaim, claim: ClaimIdentity, *, driver: str, pools: Collection[str]
) -> PrepareRequest:
    """Return a claim's request to a driver on the node with these pools; raises PrepareError."""
    if found.metadata.uid != claim.uid:
        raise PrepareError(
            f"{claim}: was deleted, and another claim has its name (uid {found.metadata.uid}); "
            "delete the pod, which was created for the old claim"
        )
    allocation = found.status.allocation
    if allocation is None:
        raise PrepareError(
            f"{claim}: is not allocated; if this persists, delete the pod, which was bound without devices"
        )
    of_driver = [result for result in allocation.devices.results or () if result.driver == driver]
    if not of_driver:
        raise PrepareError(f"{claim}: has no device of driver {driver}")
    results = tuple(result for result in of_driver if result.pool in pools)
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
            PodIdentity(name=each.name, uid=each.uid)
            for each in found.status.reserved_for or ()
            if each.resource == "pods" and not each.api_group
        ),
    )


def driver_configuration(
    allocation: AllocationResult, claim: ClaimIdentity, driver: str
) -> tuple[OpaqueParameters, ...]:
    """Return the opaque parameters for a driver, lowest precedence first; raises PrepareError.

    Parameters of the claim override those of the class; within one source, the order of the allocation decides.
    """
    ours = _entries_of_driver(allocation.devices.config or (), driver)
    ordered = sorted(ours, key=lambda entry: _SOURCE_PRECEDENCE.get(entry.get("source", ""), 0))
    return tuple(_parse_parameters(entry, claim) for entry in ordered)


def _entries_of_driver(entries: Iterable[dict[str, Any]], driver: str) -> Iterator[dict[str, Any]]:
    return (entry for entry in entries if (entry.get("opaque") or {}).get("driver") == driver)


def _parse_parameters(entry: dict[str, Any], claim: ClaimIdentity) -> OpaqueParameters:
    parameters = entry["opaque"].get("parameters")
    if not isinstance(parameters, dict):
        raise PrepareError(
            f"{claim}: its opaque parameters for driver {entry['opaque']['driver']} are not an object: {parameters!r}"
        )
    return OpaqueParameters(requests=tuple(entry.get("requests") or ()), parameters=parameters)
