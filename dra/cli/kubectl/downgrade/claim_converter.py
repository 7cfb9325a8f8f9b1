"""Carries out conversions, one write at a time, each decided on what is there at that moment.

After each write the claim is read again, with its pods, and what is still to be done follows from that: so a list is
read back before anything leaves it, a write that somebody forestalled is decided anew, and there is nothing to remember
for whoever goes on after us.
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
"""Looks at one claim before we say that somebody else writes it all the time: pods that start and end do, too."""


class ClaimConverter:
    """Converts claims while we hold the lease of the controllers, or none can be held."""

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
        """Convert one claim as far as that goes, and return how it stands then; raises ApiError, FailedError."""
        for _ in range(ATTEMPTS_MAX):
            view = await self._reader.look(key)
            if view is None:
                return DowngradeAssessment(claim=key, standing=DowngradeState.READY)
            write = next_write(view, given_up=key in self._given_up)
            if write is None:
                return assess(view, given_up=key in self._given_up)
            if isinstance(write, Deallocate) and await self._hushed():
                continue  # it took a while: look again first
            try:
                await self._patching.send(write, view.claim, priority=RequestPriority.NORMAL, within=self._within)
            except Conflict:
                continue
            except NotFound:
                return DowngradeAssessment(claim=key, standing=DowngradeState.READY)
            print_to_stderr(patches.describe_write(write, view.claim))
        raise FailedError(f"claim {'/'.join(key)}: somebody else writes it all the time; start again")

    async def let_go(self, gated: GatedPod) -> None:
        """Take our gate off a pod, and only ours; raises ApiError. Who is gone or changed is seen by the next look."""
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
        """Take our annotations off a claim or a pod."""
        gone = {"metadata": {"annotations": dict.fromkeys(noted)}}
        try:
            await self._client.merge_patch(kind, key, gone, model=PartialObjectMetadata, within=self._within())
        except NotFound:
            return

    async def _hushed(self) -> bool:
        """Wait until no late write of the leader before us can arrive; return whether that took time."""
        left = self._leadership.quiet_until() - self._clock.now()
        if left <= 0:
            return False
        print_to_stderr(f"waiting {left:.0f} s: the former leader's last writes may still arrive")
        await asyncio.sleep(left)
        return True

    def _within(self) -> float:
        return self._leadership.within(WRITE_TIMEOUT, now=self._clock.now())
