"""The DRA service: from the kubelet's calls to `Preparing`, and back to messages.

What the kubelet insists on (specs/dra-upstream.md §7), and what is done about it here:
- Exactly one answer for each claim uid of a call, and none for any other. The answer is made from the call's claims.
- It gives up after 45 s, and may go away in the middle. We answer before; what was begun comes to its end anyway
  (`Preparing`), and the next call finds it done.
- The error of one claim keeps its pod from starting, and a failure of the whole call that of all. So whatever goes
  wrong is told for each claim, and a call never fails.

What it tells of a claim has not been looked at by anybody: it is, here, before a file is named after it.
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
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, Refused, base_request_name

T = TypeVar("T")

CALL_TIMEOUT: Final = 40.0
"""Seconds; the kubelet waits for 45."""

DEADLINE_HEADROOM: Final = 1.0
"""Seconds by which we answer before a caller's own deadline."""

MAX_NAME_LENGTH: Final = 253
MAX_UID_LENGTH: Final = 128
"""Of what a kubelet may tell of a claim; an API server makes uids of 36."""

CallObserver: TypeAlias = Callable[[str, float, int], None]
"""Told of each call: operation, seconds, claims that failed."""

_log: Final = logging.getLogger(__name__)


class ClaimHandler(Protocol):
    """What `kubeletplugin.claim_preparer.Preparing` does."""

    async def prepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PreparedClaim | Refused]:
        """Prepare claims."""
        ...

    async def unprepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, Refused | None]:
        """Take back what they got."""
        ...


def ignore_call(operation: str, seconds: float, failed: int) -> None:
    """Make nothing of it."""
    del operation, seconds, failed


class DraService:
    """Implements `dra.wire.plugin.Plugin` for one driver."""

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
        """Serve all versions there are."""
        plugin.add_to_server(self, server)

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Prepare the claims of a call; each has its own answer."""
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
        """Take back what the claims of a call got; what can be no claim was never prepared."""
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
        ask: Callable[[Iterable[ClaimIdentity]], Awaitable[Mapping[Uid, T | Refused]]],
        *,
        within: float,
    ) -> dict[Uid, T | Refused]:
        """Return an answer for each claim, whatever happens; may be cancelled, and leaves to `ask` what that means."""
        if not wanted:
            return {}
        began, text = self._clock.now(), "has got no answer; this is a defect of the plugin"
        given: Mapping[Uid, T | Refused] = {}
        try:
            async with asyncio.timeout(within):
                given = await ask(wanted.values())
        except TimeoutError:
            text = f"{operation} is not done within {within:.0f} s; what was begun goes on, the kubelet asks again"
        except Exception as error:  # noqa: BLE001 - a driver may be anybody's
            _log.exception("driver %s: %s failed", self._driver, operation)
            text = f"{operation} failed: {error!r}; see the log of the plugin on this node"
        answers = {uid: given[uid] if uid in given else Refused(f"{claim}: {text}") for uid, claim in wanted.items()}
        refused = [answer for answer in answers.values() if isinstance(answer, Refused)]
        for each in refused:
            _log.warning("driver %s: %s", self._driver, each)
        self._observe(operation, self._clock.now() - began, len(refused))
        return answers


def _parse_claims(claims: Iterable[Claim]) -> tuple[dict[Uid, ClaimIdentity], dict[Uid, PreparedClaim | Refused]]:
    """Return the claims of a call, each once, and those that can be none."""
    wanted: dict[Uid, ClaimIdentity] = {}
    malformed: dict[Uid, PreparedClaim | Refused] = {}
    for each in claims:
        claim = ClaimIdentity(key=(each.namespace, each.name), uid=Uid(each.uid))
        if not all((each.namespace, each.name, each.uid)):
            malformed[claim.uid] = Refused(f"claim {_abbreviate(claim)}: namespace, name and uid must be given")
        elif max(map(len, claim.key)) > MAX_NAME_LENGTH or len(each.uid) > MAX_UID_LENGTH:
            malformed[claim.uid] = Refused(f"claim {_abbreviate(claim)}: no object has names that long")
        elif wanted.setdefault(claim.uid, claim) != claim:
            malformed[claim.uid] = Refused(f"{claim}: the kubelet names another claim with this uid in the same call")
    for uid in malformed.keys() & wanted.keys():
        del wanted[uid]
    return wanted, malformed


def _abbreviate(claim: ClaimIdentity) -> str:
    return "/".join(part[:40] for part in (*claim.key, claim.uid))


def _prepare_response(answer: PreparedClaim | Refused) -> NodePrepareResourceResponse:
    if isinstance(answer, Refused):
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


def _unprepare_response(answer: Refused | None) -> NodeUnprepareResourceResponse:
    return NodeUnprepareResourceResponse(error=truncated(answer) if answer else "")
