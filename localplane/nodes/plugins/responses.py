"""The responses that a plugin may give, and the kubelet's errors for all others: pure, texts are the kubelet's.

1. Each claim of the request has a response, and no other claim has one.
2. A response with an error fails the whole call: the first error counts, and the pod's other claims are not prepared
   either.
3. ``request_names`` are requests of the claim without a subrequest, because containers are matched by them. A name with
   a subrequest matches no container, and the kubelet does not report that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import grpc
from grpc import aio

from dra.model.meta import Uid
from dra.wire import plugin
from localplane.nodes.drivers import ClaimIdentity, Device, DriverError

PREPARE_METHOD = "NodePrepareResources"
UNPREPARE_METHOD = "NodeUnprepareResources"


class _ClaimResponse(Protocol):
    @property
    def error(self) -> str: ...


def prepared_devices(
    driver: str, claims: Sequence[ClaimIdentity], answer: plugin.NodePrepareResourcesResponse
) -> dict[Uid, tuple[Device, ...]]:
    """Return the prepared devices of each claim; raises `DriverError`."""
    _check_claims(PREPARE_METHOD, claims, answer.claims)
    return {
        Uid(uid): tuple(_device(driver, device) for device in entry.devices) for uid, entry in answer.claims.items()
    }


def check_unprepared(claims: Sequence[ClaimIdentity], answer: plugin.NodeUnprepareResourcesResponse) -> None:
    """Raise `DriverError` unless all claims were unprepared."""
    _check_claims(UNPREPARE_METHOD, claims, answer.claims)


def call_error(method: str, error: aio.AioRpcError) -> DriverError:
    """Return the error for a call that got no response."""
    return DriverError(f"{method}: {grpc_error_text(error)}")


def grpc_error_text(error: aio.AioRpcError) -> str:
    """Return a gRPC error as Go prints it."""
    return f"rpc error: code = {_code(error.code())} desc = {error.details()}"


def supported_version(versions: Iterable[str]) -> plugin.DraPluginVersion:
    """Return the version to speak: the plugin's first version that the kubelet supports; raises ValueError."""
    offered = list(versions)
    if not offered:
        raise ValueError("empty list of supported gRPC services (aka supported versions)")
    for version in offered:
        if version in tuple(plugin.DraPluginVersion):
            return plugin.DraPluginVersion(version)
    known = _quoted(version.value for version in plugin.DraPluginVersion)
    raise ValueError(
        f"none of services supported by the plugin ({_quoted(offered)}) are supported by the kubelet ({known})"
    )


def _check_claims(method: str, claims: Sequence[ClaimIdentity], answers: Mapping[str, _ClaimResponse]) -> None:
    claims_by_uid = {claim.uid: claim for claim in claims}
    for uid in answers:
        if uid not in claims_by_uid:
            raise DriverError(f"{method} returned result for unknown claim UID {uid}")
    for uid, claim in claims_by_uid.items():  # in the order of the pod's claims; the kubelet's order is random
        if uid in answers and answers[uid].error:
            raise DriverError(f"{method} failed for ResourceClaim {claim.key[1]}: {answers[uid].error}")
    skipped = len(claims) - len(answers)
    if skipped:
        raise DriverError(f"{method} skipped {skipped} ResourceClaims")


def _device(driver: str, device: plugin.Device) -> Device:
    return Device(
        driver,
        device.pool_name,
        device.device_name,
        device.share_id,
        requests=tuple(device.request_names),
        cdi=tuple(device.cdi_device_ids),
    )


def _code(code: grpc.StatusCode) -> str:
    """Return the name of a code as Go spells it, with a single l in Canceled."""
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "OK" if code is grpc.StatusCode.OK else "".join(word.capitalize() for word in code.name.split("_"))


def _quoted(words: Iterable[str]) -> str:
    """Return a list of strings as Go prints it with %q."""
    return "[" + " ".join(f'"{word}"' for word in words) + "]"
