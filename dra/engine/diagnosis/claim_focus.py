"""Chooses the pods and claims that explain one claim in use; the rest of a large cluster is noise.

A claim that waits, whose pods wait, or that no pod uses is explained by what all others hold and want: it has no focus.
"""

from collections.abc import Collection
from dataclasses import dataclass

from dra.engine.devices.ledger import DeviceID
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.pods import Pod, claim_names


@dataclass(frozen=True, slots=True)
class ClaimFocus:
    """A claim, and what tells the objects that matter for its explanation from others."""

    key: Key
    devices: frozenset[DeviceID]
    words: tuple[bytes, ...]
    """The name of the claim, and the uids of its owners, as they stand in JSON.

    A pod that uses the claim has its name, in its spec or in its status; a listed pod that has not is looked for with
    all others, see `suffices`.
    """

    claim_words: tuple[bytes, ...]
    """The name of the claim, and the pools of its devices, as they stand in the JSON of a claim with such a device."""

    listed: frozenset[Uid]
    """The uids of the pods in ``status.reservedFor``."""

    @classmethod
    def of(cls, claim: ResourceClaim) -> "ClaimFocus | None":
        """Return the focus on a claim; None for a claim that is not allocated or is being deleted."""
        if claim.status.allocation is None or claim.metadata.deleting:
            return None
        listed = frozenset(entry.uid for entry in claim.entries if entry.is_pod)
        owners = (owner.uid for owner in claim.metadata.owner_references or ())
        devices, name = _devices(claim), claim.metadata.name
        return cls(
            key=claim.metadata.key,
            devices=devices,
            words=_quoted(name, *owners),
            claim_words=_quoted(name, *sorted(device.pool for device in devices)),
            listed=listed,
        )

    def may_need_pod(self, raw: bytes) -> bool:
        """Report whether a pod may matter, by its JSON: other pods need not be decoded."""
        return any(word in raw for word in self.words)

    def may_need_claim(self, raw: bytes) -> bool:
        """Report whether a claim may matter, by its JSON: others need not be decoded."""
        return any(word in raw for word in self.claim_words)

    def needs_claim(self, claim: ResourceClaim) -> bool:
        """Report whether a claim matters: the claim itself, or one that holds some of the same devices."""
        return claim.metadata.key == self.key or not self.devices.isdisjoint(_devices(claim))

    def suffices(self, *, claims: Collection[ResourceClaim], pods: Collection[Pod]) -> bool:
        """Report whether the claims and pods that matter explain the claim.

        They do if the claim has not been allocated anew since, no other claim has a device of it, and all pods that
        name it are bound and name no other claim; one of them has to use it. A listed pod that is not among them may
        be one of another namespace.
        """
        if not self.listed.issubset(pod.metadata.uid for pod in pods):
            return False
        if [(claim.metadata.key, _devices(claim)) for claim in claims] != [(self.key, self.devices)]:
            return False
        users = [pod for pod in pods if pod.metadata.namespace == self.key[0] and self.key[1] in claim_names(pod)]
        return any(map(self._uses, users)) and all(pod.spec.node_name and len(claim_names(pod)) == 1 for pod in users)

    def _uses(self, pod: Pod) -> bool:
        names = (entry.resource_claim_name for entry in pod.spec.resource_claims or ())
        return not pod.terminal and self.key[1] in names


def _quoted(*words: str) -> tuple[bytes, ...]:
    return tuple(f'"{word}"'.encode() for word in dict.fromkeys(words) if word)


def _devices(claim: ResourceClaim) -> frozenset[DeviceID]:
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return frozenset(DeviceID(driver=result.driver, pool=result.pool, device=result.device) for result in results)
