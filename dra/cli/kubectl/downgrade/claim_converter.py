"""Converts claims one write at a time, each decided on the state of the cluster at that moment.

After each write, the claim is read again with its pods, and the next write follows from that. So a list is read back
before an entry is removed, a write that failed with a conflict is decided again, and no state is needed to continue
after an interruption.
"""

import asyncio
from typing import Final

from controller.claim_patcher import ClaimPatcher
from controller.leadership import Leadership
from dra.cli.kubectl.connection import Connection, FailedError
from dra.cli.kubectl.downgrade.survey import GatedPod, SurveyReader
from dra.cli.kubectl.printers import print_to_stderr
from dra.engine.claims import patches
from dra.engine.claims.actions import Deallocate
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState, assess, next_write
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import Conflict, NotFound
from dra.kube.leader_election import LeaderElector
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import PODS, Resource
from dra.model.meta import Key, PartialObjectMetadata

ATTEMPTS_MAX: Final = 64
"""Maximum number of reads of one claim before the command reports that another client keeps writing the claim.

Pods that start and end write it, too.
"""


class ClaimConverter:
    """Converts claims while the command holds the lease of the controllers, or where no lease can be held."""

    def __init__(
        self,
        connection: Connection,
        reader: SurveyReader,
        *,
        election: LeaderElector | None,
        given_up: frozenset[Key] = frozenset(),
    ) -> None:
        self._client = connection.client
        self._clock = connection.clock
        self._reader = reader
        self._leadership = Leadership(election)
        self._given_up = given_up
        self._patching = ClaimPatcher(connection.client)

    async def convert(self, key: Key) -> DowngradeAssessment:
        """Convert one claim as far as possible and return its final assessment; raise ApiError, FailedError."""
        for _ in range(ATTEMPTS_MAX):
            view = await self._reader.look(key)
            if view is None:
                return DowngradeAssessment(claim=key, standing=DowngradeState.READY)
            write = next_write(view, given_up=key in self._given_up)
            if write is None:
                return assess(view, given_up=key in self._given_up)
            if isinstance(write, Deallocate) and await self._hushed():
                continue  # waiting took time: read the claim again first
            try:
                await self._patching.send(write, view.claim, priority=RequestPriority.NORMAL, within=self._within)
            except Conflict:
                continue
            except NotFound:
                return DowngradeAssessment(claim=key, standing=DowngradeState.READY)
            print_to_stderr(patches.describe_write(write, view.claim))
        raise FailedError(f"claim {'/'.join(key)}: somebody else writes it all the time; start again")

    async def let_go(self, gated: GatedPod) -> None:
        """Remove only our scheduling gate from a pod; raise ApiError.

        A pod that is gone or has changed is left as it is: the next survey shows its state.
        """
        kept = [{"name": name} for name in gated.gates if name != SCHEDULING_GATE]
        try:
            await self._client.merge_patch(
                PODS,
                gated.key,
                {"spec": {"schedulingGates": kept or None}},
                model=PartialObjectMetadata,
                uid=gated.uid,
                resource_version=gated.resource_version,
                within=self._within(),
            )
        except (Conflict, NotFound):
            return

    async def clean(self, kind: Resource, key: Key, noted: tuple[str, ...]) -> None:
        """Remove our annotations from a claim or a pod."""
        gone = {"metadata": {"annotations": dict.fromkeys(noted)}}
        try:
            await self._client.merge_patch(kind, key, gone, model=PartialObjectMetadata, within=self._within())
        except NotFound:
            return

    async def _hushed(self) -> bool:
        """Wait until no late write of the former leader can arrive; return whether that took time."""
        left = self._leadership.quiet_until() - self._clock.now()
        if left <= 0:
            return False
        print_to_stderr(f"waiting {left:.0f} s: the former leader's last writes may still arrive")
        await asyncio.sleep(left)
        return True

    def _within(self) -> float:
        return self._leadership.within(WRITE_TIMEOUT, now=self._clock.now())
