"""Reservations, and whoever places them and gives what they hold to pods.

A placeholder finds a place for a reservation, with a claim of its own that the reservation owns, too. Once the
placeholder is bound the reservation is available there, and the placeholder goes; then one pod after the other becomes
the controller of the claim (docs/design/reservations.md). Who may have it is judged elsewhere
(tests/dra/engine/generation): here the next pod from a template gets it.
"""

from functools import cache
from typing import Final

from msgspec.structs import replace

from dra.api.reservations import model
from dra.engine.claims import claim_holders
from dra.engine.reservations import placeholders
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, ObjectMeta, OwnerReference, Uid
from dra.model.pods import Pod
from tests.dra.engine.reservations import examples
from tests.dra.engine.simulation import objects
from tests.dra.engine.simulation.objects import PodShape, Reservation
from tests.dra.engine.simulation.server import Actor, Server

RESERVATION_NAME: Final = "held"
"""Of the only reservation."""


@cache
def reservation_object(name: str, uid: Uid, phase: str, node: str) -> model.Reservation:
    """Return a reservation as our process reads it."""
    template = {"metadata": {"namespace": objects.NAMESPACE}, "spec": {"resourceClaims": [{"name": objects.OWN_CLAIM}]}}
    owners = [{"labelSelector": {"matchLabels": {"app": "a"}}}]
    status = {"phase": phase, "nodeName": node}
    made = examples.available(template=template, owners=owners, allocateOnce=False, status=status)
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"name": name, "uid": uid})})


def holding_reservations(claim: ResourceClaim) -> frozenset[Uid]:
    """Return the uids of the reservations that a claim was made for."""
    return frozenset(each.uid for each in claim_holders.owner_reservations(claim))


class SimulatedExtender:
    """Places reservations, hands their claims on, and collects what they leave."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self) -> Reservation | None:
        """Return the reservation, if there is one."""
        return self._server.find(Reservation, objects.key(RESERVATION_NAME))

    def create(self) -> None:
        """Somebody reserves devices: placeholder and claim are made at once."""
        made = self._server.create(
            Reservation(metadata=ObjectMeta(name=RESERVATION_NAME, namespace=objects.NAMESPACE)), by=_BY
        )
        name = placeholders.placeholder_name(made.metadata.uid)
        pod = self._server.create(objects.pod(name, PodShape(template=True)), by=_BY)
        claim = objects.generated_claim(pod)
        owners = [
            *(claim.metadata.owner_references or ()),
            claim_holders.reservation_owner_reference(RESERVATION_NAME, made.metadata.uid),
        ]
        claim = replace(claim, metadata=replace(claim.metadata, owner_references=owners))
        self._record(pod, self._server.create(claim, by=_BY))

    def work(self) -> None:
        """Make the reservation available where its placeholder is bound, and delete the placeholder."""
        found = self.find()
        pod = self._server.find(Pod, _placeholder(found)) if found is not None else None
        if found is None or pod is None or not pod.spec.node_name:
            return
        if found.phase == "Pending":
            self._become(found, "Available", node=pod.spec.node_name)
        else:
            self._server.delete(Pod, pod.metadata.key, by=_BY, force=True)

    def end(self) -> None:
        """The reservation ends by its own words; its object stays."""
        found = self.find()
        if found is not None:
            self._become(found, "Failed", node=found.node)

    def assign_claim(self, pod: Pod) -> bool:
        """Give a pod the claim that is held and that nobody has; return whether there is one."""
        found = self.find()
        for claim in self._server.list(ResourceClaim) if found is not None and found.phase == "Available" else ():
            meta = claim.metadata
            entered = any(entry.is_reservation for entry in claim.entries)
            if (
                found.metadata.uid in holding_reservations(claim)
                and claim.controller is None
                and entered
                and not meta.deleting
            ):
                by = OwnerReference(
                    api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
                )
                self._owned(claim, [by, *(meta.owner_references or ())])
                self._record(pod, claim)
                return True
        return False

    def collect(self) -> None:
        """The garbage collector: delete claims whose owners are all gone, and drop single owners that are."""
        present = {each.metadata.uid for kind in (Pod, Reservation) for each in self._server.list(kind)}
        for claim in self._server.list(ResourceClaim):
            owners = claim.metadata.owner_references or []
            left = [owner for owner in owners if owner.uid in present]
            if owners and not left:
                self._server.delete(ResourceClaim, claim.metadata.key, by=Actor.USER)
            elif len(left) < len(owners):
                self._owned(claim, left)

    def _record(self, pod: Pod, claim: ResourceClaim) -> None:
        meta, name = pod.metadata, claim.metadata.name
        self._server.patch(Pod, meta.key, meta.uid, lambda found: objects.with_claim(found, name), by=_BY)

    def _become(self, found: Reservation, phase: str, *, node: str) -> None:
        meta = found.metadata
        self._server.patch(
            Reservation, meta.key, meta.uid, lambda known: replace(known, phase=phase, node=node), by=_BY
        )

    def _owned(self, claim: ResourceClaim, owners: list[OwnerReference]) -> None:
        def change(found: ResourceClaim) -> ResourceClaim:
            return replace(found, metadata=replace(found.metadata, owner_references=owners))

        self._server.patch(ResourceClaim, claim.metadata.key, claim.metadata.uid, change, by=_BY)


_BY: Final = Actor.OWNER


def _placeholder(found: Reservation) -> Key:
    return objects.key(placeholders.placeholder_name(found.metadata.uid))
