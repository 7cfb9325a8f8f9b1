"""Watches all claims and pods of a plane, for the progress line and for the audit at the end."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from dra.cli.demo.safety_check import ClaimVersion, PodVersion
from dra.kube.client import Client
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, PODS
from dra.kube.store import Synced
from dra.kube.tasks import background_task
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.pods import TERMINAL_PHASES, Pod

GUARD_RESOURCE: Final = "guards"
"""The resource of guard entries, which keep schedulers from taking a claim whose pods they cannot count."""


class WriteHistory:
    """The versions of all claims and pods written since `watching` was entered."""

    def __init__(self, client: Client) -> None:
        self.versions: Final[list[ClaimVersion | PodVersion]] = []
        self.gaps = 0
        """Number of times that a watch missed changes and had to list again."""
        self._claims = Reflector(
            client,
            CLAIMS,
            ResourceClaim,
            handler=EventHandlerFuncs[ResourceClaim](
                on_upsert=lambda claim: self.versions.append(_claim_version(claim, deleted=False)),
                on_delete=lambda claim: self.versions.append(_claim_version(claim, deleted=True)),
                on_sync=self._count_gap,
                on_restore=ignore,
            ),
        )
        self._pods = Reflector(
            client,
            PODS,
            Pod,
            handler=EventHandlerFuncs[Pod](
                on_upsert=lambda pod: self.versions.append(_pod_version(pod, deleted=False)),
                on_delete=lambda pod: self.versions.append(_pod_version(pod, deleted=True)),
                on_sync=self._count_gap,
                on_restore=ignore,
            ),
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        """Record all versions for as long as the block lasts."""
        async with background_task(self._claims.run(), name="claims"), background_task(self._pods.run(), name="pods"):
            for reflector in (self._claims, self._pods):
                await reflector.synced.wait()
            yield self

    def has_seen(self, present: Iterable[Mapping[str, Any]]) -> bool:
        """Report whether the watches have shown these objects at their present resource versions."""
        seen = {version.revision for version in self.versions}
        return all(int(content["metadata"]["resourceVersion"]) in seen for content in present)

    def claim(self, key: Key) -> ResourceClaim | None:
        """Return a claim as it is now, or None."""
        return self._claims.objects.get(key)

    def claim_versions(self, name: str) -> list[ClaimVersion]:
        """Return all versions of a claim."""
        return [version for version in self.versions if isinstance(version, ClaimVersion) and version.key[1] == name]

    def pod_ended(self, key: Key) -> bool:
        """Report whether a pod has finished."""
        pod = self._pods.objects.get(key)
        return pod is not None and pod.status.phase in TERMINAL_PHASES

    def list_summary(self, key: Key) -> str:
        """Return a short text of the entries in a claim's list."""
        claim = self.claim(key)
        if claim is None or not claim.entries:
            return "empty"
        pods = sum(entry.is_pod for entry in claim.entries)
        others = [f"{entry.resource}/{entry.name}" for entry in claim.entries if not entry.is_pod]
        named = ["a guard" if name.startswith(f"{GUARD_RESOURCE}/") else name for name in others]
        return " + ".join([*named, *([f"{pods} pods"] if pods else [])])

    def phases(self, namespace: str, job: str) -> Counter[str]:
        """Return how many pods of a Job are in each phase."""
        prefix = f"{job}-"
        pods = (pod for key, pod in self._pods.objects.items() if key[0] == namespace and key[1].startswith(prefix))
        return Counter(pod.status.phase or "Pending" for pod in pods)

    def _count_gap(self, synced: Synced) -> None:
        self.gaps += not synced.first


def _claim_version(claim: ResourceClaim, *, deleted: bool) -> ClaimVersion:
    allocation = claim.status.allocation
    results = (allocation.devices.results if allocation is not None else None) or []
    return ClaimVersion(
        revision=int(claim.metadata.resource_version),
        key=claim.metadata.key,
        uid=claim.metadata.uid,
        devices=frozenset(
            f"{result.driver}/{result.pool}/{result.device}" for result in results if not result.admin_access
        ),
        entries=len(claim.entries),
        pods_listed=sum(entry.is_pod for entry in claim.entries),
        deleted=deleted,
    )


def _pod_version(pod: Pod, *, deleted: bool) -> PodVersion:
    named = (entry.resource_claim_name for entry in pod.spec.resource_claims or ())
    return PodVersion(
        revision=int(pod.metadata.resource_version),
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        claims=tuple(name for name in named if name),
        consuming=bool(pod.spec.node_name) and pod.status.phase not in TERMINAL_PHASES,
        deleted=deleted,
    )
