"""Provides the claims of simulated pods: created from templates, or handed over by a reservation.

`dra.engine.claims.generation.decide` decides, as in the controller; here each decision takes effect at once.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from dra.api.reservations.model import Reservation
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.decide import CreateClaim, HandOverClaim, decide
from dra.engine.diagnosis.cluster_state import SNAPSHOT_INSTANT
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.reservations import claim_holders
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import Uid
from dra.model.pods import PodResourceClaimStatus
from dra.model.scheduling import SchedulerPod
from dra.model.templates import ResourceClaimTemplate

_FIRST_SIMULATED_VERSION: Final = 2**62
"""First resourceVersion of simulated writes, later than any of an API server."""


class SimulatedClaimGeneration:
    """Creates claims for simulated pods, and hands over the claims of reservations."""

    def __init__(self, snapshot: Snapshot, templates: Iterable[ResourceClaimTemplate]) -> None:
        self._version = _FIRST_SIMULATED_VERSION
        self._world = ClaimCache()
        self._world.follow_reservations()
        for template in templates:
            self._world.owners.observe_template(template)
        held = [claim for claim in snapshot.claims if claim_holders.owner_reservations(claim)]
        users = {entry.uid for claim in held for entry in claim.entries}
        users |= {claim.controller.uid for claim in held if claim.controller is not None}
        for pod in snapshot.pods:
            if pod.metadata.uid in users:
                self._world.observe_pod(pod, now=SNAPSHOT_INSTANT)
        for claim in held:
            self.observe(claim)

    def observe_reservation(self, uid: Uid, reservation: Reservation) -> None:
        """Add a reservation to the cache."""
        self._world.observe_reservation(uid, reservation)

    def observe(self, claim: ResourceClaim) -> None:
        """Add a claim to the cache if a reservation holds it; other claims do not matter here."""
        if claim_holders.owner_reservations(claim):
            self._tell(claim)

    def _tell(self, claim: ResourceClaim) -> None:
        """Update a claim in the cache with a new version number, because no API server assigns one in a simulation."""
        self._version += 1
        metadata = msgspec.structs.replace(claim.metadata, resource_version=str(self._version))
        self._world.observe_claim(msgspec.structs.replace(claim, metadata=metadata), now=SNAPSHOT_INSTANT)

    def forget(self, pod: SchedulerPod) -> None:
        """Remove a pod from the cache."""
        self._world.forget_pod(pod.metadata.uid)

    def equipped(self, pod: SchedulerPod) -> tuple[SchedulerPod, tuple[ResourceClaim, ...]]:
        """Return a pod with its claims named, and the claims that were created or handed over for the pod."""
        uid = pod.metadata.uid
        self._world.observe_pod(pod, now=SNAPSHOT_INSTANT)
        view = self._world.owner_view(uid)
        if view is None:
            return pod, ()
        plan = decide(view)
        made = {each.entry: _created_claim(each) for each in plan.create}
        made |= {each.entry: _handed_over_claim(each) for each in plan.take}
        if not made:
            return pod, ()
        for claim in made.values():
            self._tell(claim)
        told = [PodResourceClaimStatus(name=n, resource_claim_name=c.metadata.name) for n, c in made.items()]
        known = [each for each in pod.status.resource_claim_statuses or () if each.name not in made]
        status = msgspec.structs.replace(pod.status, resource_claim_statuses=[*known, *told])
        return msgspec.structs.replace(pod, status=status), tuple(made.values())


def _created_claim(action: CreateClaim) -> ResourceClaim:
    content = manifests.claim_manifest(action)
    (namespace, pod), entry = action.owner.key, action.entry
    content["metadata"] |= {
        "name": f"{pod}-{entry}-simulated",
        "namespace": namespace,
        "uid": f"simulated-claim-{namespace}-{pod}-{entry}",
        "resourceVersion": "1",
    }
    return msgspec.convert(content, ResourceClaim)


def _handed_over_claim(action: HandOverClaim) -> ResourceClaim:
    write = manifests.hand_over_write(action)
    claim = action.held.claim
    annotations = {**(claim.metadata.annotations or {}), POD_CLAIM_NAME: action.entry}
    owners = list(write.owners) if write.owners is not None else claim.metadata.owner_references
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations, owner_references=owners)
    return msgspec.structs.replace(claim, metadata=metadata)
