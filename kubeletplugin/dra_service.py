"""The DRA service: passes the kubelet's calls to `kubeletplugin.claim_preparer.ClaimPreparer` and returns its answers.

The kubelet's requirements (kubelet, pkg/kubelet/cm/dra), and how this module meets them:
- A response has exactly one answer for each claim uid of the call, and no other. So it is built from the call's claims.
- The kubelet gives up after 45 s, and may disconnect before that. The service answers earlier; a call that has begun
  runs to its end anyway (`ClaimPreparer`), and the kubelet's next call finds its result.
- The error of one claim keeps the claim's pods from starting; a failure of the whole call affects all its pods. So each
  error is reported for its claim, and a call never fails.

Kubelet input is untrusted: each claim is validated before it becomes part of a file name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from grpc import aio

from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import truncated
from dra.model.meta import Uid
from dra.wire import plugin
from dra.wire.plugin import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from kubeletplugin import cdi
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError, base_request_name

T = TypeVar("T")

CALL_TIMEOUT: Final = 40.0
"""Seconds until a call is answered; the kubelet waits for 45."""

DEADLINE_HEADROOM: Final = 1.0
"""Seconds that an answer precedes the caller's own deadline."""

MAX_NAME_LENGTH: Final = 253
MAX_UID_LENGTH: Final = 128
"""Maximum length of a claim's uid in a kubelet's call; API servers create uids of 36 characters."""

CallObserver: TypeAlias = Callable[[str, float, int], None]
"""A function that is called after each call with the operation, the seconds, and the number of failed claims."""

_log: Final = logging.getLogger(__name__)


class ClaimHandler(Protocol):
    """The handler of prepare and unprepare calls; `kubeletplugin.claim_preparer.ClaimPreparer` implements it."""

    async def prepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PreparedClaim | PrepareError]:
        """Prepare claims and return the answer for each."""
        ...

    async def unprepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareError | None]:
        """Unprepare claims and return None, or the reason of a failure, for each."""
        ...


def ignore_call(operation: str, seconds: float, failed: int) -> None:
    """Ignore a call, as the default observer."""
    del operation, seconds, failed


class DraService:
    """Implements `dra.wire.plugin.DraPluginServicer` for one driver."""

    def __init__(
        self,
        claims: ClaimHandler,
        *,
        driver: str,
        observe: CallObserver = ignore_call,
        clock: Clock = SYSTEM,
        deadline: float = CALL_TIMEOUT,
    ) -> None:
        self._claims = claims
        self._driver = driver
        self._observe = observe
        self._clock = clock
        self._deadline = deadline

    def add_to_server(self, server: aio.Server) -> None:
        """Add all versions of the DRA service to a gRPC server."""
        plugin.add_to_server(self, server)

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Prepare the claims of a call; each claim has its own answer."""
        wanted, malformed = _parse_claims(request.claims)
        answers = await self._ask("prepare", wanted, self._claims.prepare, within=self._time_for(context))
        prepared: dict[str, NodePrepareResourceResponse] = {
            uid: _prepare_response(answer) for uid, answer in (malformed | answers).items()
        }
        return NodePrepareResourcesResponse(claims=prepared)

    async def node_unprepare_resources(
        self,
        request: NodeUnprepareResourcesRequest,
        context: aio.ServicerContext[NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse],
        /,
    ) -> NodeUnprepareResourcesResponse:
        """Unprepare the claims of a call; a malformed claim was never prepared, so unpreparing it succeeds."""
        wanted, malformed = _parse_claims(request.claims)
        answers = await self._ask("unprepare", wanted, self._claims.unprepare, within=self._time_for(context))
        unprepared: dict[str, NodeUnprepareResourceResponse] = {
            uid: _unprepare_response(answer) for uid, answer in (dict.fromkeys(malformed) | answers).items()
        }
        return NodeUnprepareResourcesResponse(claims=unprepared)

    def _time_for(self, context: aio.ServicerContext[Any, Any]) -> float:
        remaining: float | None = context.time_remaining()
        return self._deadline if remaining is None else max(0.0, min(self._deadline, remaining - DEADLINE_HEADROOM))

    async def _ask(
        self,
        operation: str,
        wanted: Mapping[Uid, ClaimIdentity],
        ask: Callable[[Iterable[ClaimIdentity]], Awaitable[Mapping[Uid, T | PrepareError]]],
        *,
        within: float,
    ) -> dict[Uid, T | PrepareError]:
        """Return an answer for each claim, whatever happens; a cancellation is passed on to `ask`."""
        if not wanted:
            return {}
        began, text = self._clock.now(), "got no answer; this is a bug in the plugin"
        given: Mapping[Uid, T | PrepareError] = {}
        try:
            async with asyncio.timeout(within):
                given = await ask(wanted.values())
        except TimeoutError:
            text = f"{operation} has not finished within {within:.0f} s; it continues, and the kubelet retries"
        except Exception as error:  # noqa: BLE001 - a driver may be anybody's
            _log.exception("driver %s: %s failed", self._driver, operation)
            text = f"{operation} failed: {error!r}; see the plugin's log on this node"
        answers = {
            uid: given[uid] if uid in given else PrepareError(f"{claim}: {text}") for uid, claim in wanted.items()
        }
        refused = [answer for answer in answers.values() if isinstance(answer, PrepareError)]
        for refusal in refused:
            _log.warning("driver %s: %s", self._driver, truncated(refusal))
        self._observe(operation, self._clock.now() - began, len(refused))
        return answers


def _parse_claims(claims: Iterable[Claim]) -> tuple[dict[Uid, ClaimIdentity], dict[Uid, PreparedClaim | PrepareError]]:
    """Return the valid claims of a call, each once, and the refusals of malformed claims."""
    wanted: dict[Uid, ClaimIdentity] = {}
    malformed: dict[Uid, PreparedClaim | PrepareError] = {}
    for message in claims:
        claim = ClaimIdentity(key=(message.namespace, message.name), uid=Uid(message.uid))
        if not all((message.namespace, message.name, message.uid)):
            malformed[claim.uid] = PrepareError(f"claim {_abbreviate(claim)}: namespace, name and uid are required")
        elif max(map(len, claim.key)) > MAX_NAME_LENGTH or len(message.uid) > MAX_UID_LENGTH:
            malformed[claim.uid] = PrepareError(f"claim {_abbreviate(claim)}: its namespace, name or uid is too long")
        elif wanted.setdefault(claim.uid, claim) != claim:
            malformed[claim.uid] = PrepareError(f"{claim}: the same call has another claim with this uid")
    for uid in malformed.keys() & wanted.keys():
        del wanted[uid]
    return wanted, malformed


def _abbreviate(claim: ClaimIdentity) -> str:
    return "/".join(part[:40] for part in (*claim.key, claim.uid))


def _prepare_response(answer: PreparedClaim | PrepareError) -> NodePrepareResourceResponse:
    if isinstance(answer, PrepareError):
        return NodePrepareResourceResponse(error=truncated(answer))
    devices = zip(answer.devices, cdi.device_ids(answer), strict=True)
    return NodePrepareResourceResponse(
        devices=[
            Device(
                request_names=[base_request_name(request) for request in device.requests],
                pool_name=device.pool,
                device_name=device.device,
                cdi_device_ids=ids,
                share_id=device.share or None,
            )
            for device, ids in devices
        ]
    )


def _unprepare_response(answer: PrepareError | None) -> NodeUnprepareResourceResponse:
    return NodeUnprepareResourceResponse(error=truncated(answer) if answer else "")
