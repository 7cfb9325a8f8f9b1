"""Manual release of a claim's devices on this node, for claims that the kubelet will never unprepare.

A kubelet unprepares only the claims that it remembers. If it has lost its ``dra_manager_state``, or the plugin's
checkpoint was reset to an earlier state, a claim keeps its devices on the node though no pod uses it: only an
administrator can decide that.

The release is an unprepare, under the lock of the driver's directory. So it works while the plugin runs, which re-reads
the checkpoint and reconciles the node within seconds, and while it does not, when its next start does the same.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from dra.kube.client import Client, Selection
from dra.kube.resources import PODS
from dra.model.meta import Struct, Uid
from dra.model.pods import Pod, claim_names
from kubeletplugin import release_journal
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.checkpoint import CHECKPOINT_FILE, Checkpoint
from kubeletplugin.claim_preparer import ClaimPreparer
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError, PrepareRequest
from kubeletplugin.directory_lock import DirectoryLock


class HeldClaim(Struct, frozen=True):
    """A claim that holds devices of one driver."""

    folder: Path
    """The driver's directory."""

    preparation: PreparedClaim

    def __str__(self) -> str:
        devices = ", ".join(f"{device.pool}/{device.device}" for device in self.preparation.devices)
        return f"{self.preparation.claim}: {devices} of driver {self.preparation.driver}"


class ForeignPodsError(ValueError):
    """A list of pods is not the complete list of this node's pods."""


class _PodList(Struct, frozen=True):
    items: list[Pod]


def held_claims(plugins: Path, drivers: Iterable[str]) -> tuple[HeldClaim, ...]:
    """Return the claims that hold devices on this node; raises CheckpointError."""
    folders = [plugins / driver for driver in drivers]
    return tuple(
        HeldClaim(folder=folder, preparation=preparation)
        for folder in folders
        for preparation in Checkpoint(folder / CHECKPOINT_FILE, PreparedClaim).read()
    )


def parse_pod_list(body: bytes) -> tuple[Pod, ...]:
    """Return the pods of a JSON list, as printed by ``kubectl get pods -o json``; raises ForeignPodsError."""
    try:
        return tuple(msgspec.json.decode(body, type=_PodList).items)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ForeignPodsError(f"pods: not the output of kubectl get pods -A -o json: {error}") from error


async def list_pods_on_node(client: Client, node: str) -> tuple[Pod, ...]:
    """Return the pods of a node from the API server; raises ApiError, or ForeignPodsError."""
    selection = Selection(fields=f"spec.nodeName={node}")
    pods: list[Pod] = []
    async for page in client.list_pages(PODS, Pod, selection=selection):
        pods += page.items
        if page.unreadable:
            raise ForeignPodsError(f"pods: some of node {node} cannot be read: {page.unreadable[0]}")
    return tuple(pods)


def pods_using_claim(claim: ClaimIdentity, pods: Iterable[Pod], *, node: str, own: str = "") -> tuple[str, ...]:
    """Return the pods of a node that use a claim, or may use it.

    `own` is the uid of the plugin's pod, if this process runs in it. Raises ForeignPodsError for a list that cannot
    contain all pods of the node.
    """
    here = [pod for pod in pods if pod.spec.node_name == node]
    # A list that was filtered or cut would show no user of the claim, and its devices would be given away.
    if not here or (own and own not in {pod.metadata.uid for pod in here}):
        missing = "this plugin's own pod is missing" if here else "no pod of that node is in it"
        raise ForeignPodsError(f"pods: not the complete list of pods on node {node}: {missing}")
    namespace, name = claim.key
    return tuple(
        f"{'/'.join(pod.metadata.key)} ({pod.status.phase or 'Pending'})"
        for pod in here
        if pod.metadata.namespace == namespace and not pod.terminal and name in claim_names(pod)
    )


async def release_claim(held: HeldClaim, *, cdi: Path, because: str) -> None:
    """Record the release in the journal, then release the claim.

    Raises PrepareError or OSError, and then the claim still holds its devices.
    """
    driver, claim = held.preparation.driver, held.preparation.claim
    elsewhere, folder = _AbsentDriver(driver), CdiSpecDirectory(cdi, driver=driver)
    checkpoint = Checkpoint(held.folder / CHECKPOINT_FILE, PreparedClaim, related_files=folder.pattern)
    preparer = ClaimPreparer(
        elsewhere, claims=elsewhere, checkpoint=checkpoint, cdi=folder, lock=DirectoryLock(held.folder)
    )
    release_journal.record_release(held.folder, held.preparation, because=because)
    answer = (await preparer.unprepare([claim]))[claim.uid]
    if answer is not None:
        raise answer


class _AbsentDriver:
    """The stand-in for a driver that runs in another process, or not at all, and that reconciles the node there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        del others
        raise PrepareError(f"{request.claim}: this process prepares no claims")

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        pass

    async def read(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareRequest | PrepareError]:
        return {claim.uid: PrepareError(f"{claim}: this process prepares no claims") for claim in claims}
