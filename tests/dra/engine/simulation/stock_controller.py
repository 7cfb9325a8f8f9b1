"""The stock claim controller beside ours, as on clusters whose control plane others run.

Read from ``syncClaim`` and ``syncPod`` (pkg/controller/resourceclaim/controller.go), 1.36.3: entries of pods that have
ended or are gone are removed, the last of them together with the allocation, and bound pods that are not listed are.
"""

import msgspec

from dra.model.claims import DELETE_PROTECTION, ResourceClaim
from dra.model.pods import Pod, claim_names
from dra.model.references import ConsumerReference
from tests.dra.engine.simulation.claim_versions import ClaimVersions
from tests.dra.engine.simulation.objects import pod_entry
from tests.dra.engine.simulation.requests import ApiError
from tests.dra.engine.simulation.server import Actor, Server


class StockClaimController:
    """One controller; its informer may be behind, and then its writes meet conflicts."""

    def __init__(self, server: Server, history: ClaimVersions) -> None:
        self._server = server
        self._history = history

    def work(self, *, lag: int = 0) -> bool:
        """Look at every claim and pod once; return whether anything was written."""
        before = self._server.version
        for claim in self._server.list(ResourceClaim):
            name = claim.metadata.name
            seen = self._history.version(name, max(self._history.newest(name) - lag, 0))
            if seen is not None:
                _ignore_failure(self._sync_claim, seen)
        for pod in self._server.list(Pod):
            if pod.spec.node_name and not pod.metadata.deleting and not pod.terminal:
                for name in claim_names(pod):
                    self._sync_pod(pod, name)
        return self._server.version != before

    def _sync_claim(self, claim: ResourceClaim) -> None:
        valid = [entry for entry in claim.entries if self._lives(entry)]
        if len(valid) < len(claim.entries):
            status = msgspec.structs.replace(claim.status, reserved_for=valid or None)
            if not valid and claim.protected:
                status = msgspec.structs.replace(status, allocation=None)
            claim = self._server.update_status(msgspec.structs.replace(claim, status=status), by=Actor.STOCK)
            if claim.protected and claim.status.allocation is None:
                self._unprotect(claim)
        elif claim.protected and claim.metadata.deleting and not valid:
            status = msgspec.structs.replace(claim.status, allocation=None)
            claim = self._server.update_status(msgspec.structs.replace(claim, status=status), by=Actor.STOCK)
            self._unprotect(claim)

    def _lives(self, entry: ConsumerReference) -> bool:
        """An entry that is no pod's is not its business; a pod that its informer lacks is read live."""
        if not entry.is_pod:
            return True
        pod = next((p for p in self._server.list(Pod) if p.metadata.uid == entry.uid), None)
        return pod is not None and not pod.terminal and not (pod.metadata.deleting and not pod.spec.node_name)

    def _unprotect(self, claim: ResourceClaim) -> None:
        left = [name for name in claim.metadata.finalizers or () if name != DELETE_PROTECTION]
        meta = msgspec.structs.replace(claim.metadata, finalizers=left or None)
        self._server.update(msgspec.structs.replace(claim, metadata=meta), by=Actor.STOCK)

    def _sync_pod(self, pod: Pod, name: str) -> None:
        claim = self._server.find(ResourceClaim, (pod.metadata.namespace, name))
        if claim is None or claim.status.allocation is None:
            return
        gang = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
        if any(e.uid == pod.metadata.uid or (e.is_pod_group and e.name == gang) for e in claim.entries):
            return
        status = msgspec.structs.replace(claim.status, reserved_for=[*claim.entries, pod_entry(pod)])
        _ignore_failure(
            lambda found: self._server.update_status(found, by=Actor.STOCK),
            msgspec.structs.replace(claim, status=status),
        )


def _ignore_failure(write, claim: ResourceClaim) -> None:
    """Make a write that is tried again with the next event if it fails."""
    try:
        write(claim)
    except ApiError:
        return
