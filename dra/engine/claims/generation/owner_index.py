"""The index of claim owners as last observed, and of the owners to decide again when a claim or a template changes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from dra.engine.claims import claim_holders
from dra.engine.claims.claim_holders import ClaimHolders, HolderState
from dra.engine.claims.generation import claim_owners
from dra.engine.claims.generation.attempts import GenerationAttempts
from dra.engine.claims.generation.claim_owners import ClaimOwner, ClaimOwnerKind, ClaimOwnerView
from dra.engine.claims.generation.held_claims import HeldClaim, may_consume
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, OwnerReference, Uid
from dra.model.pods import Pod
from dra.model.templates import PodGroup, ResourceClaimTemplate, is_pod_group

_NO_OWNERS: Final[frozenset[Uid]] = frozenset()


class ClaimOwnerIndex(Cache[Uid]):
    """The index of all pods and PodGroups that request claims from templates.

    ``dirty`` holds the owners to decide about.
    """

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Uid] = DirtyKeys()
        self.attempts = GenerationAttempts()
        self.groups_version = ""
        """API version in which the API server serves PodGroups; empty if it serves none."""

        self.groups_known = True
        """Whether a PodGroup that is not in the index does not exist."""

        self.groups_error = ""
        """Why that is unknown; empty if the list only takes a moment."""

        self._owners: dict[Uid, ClaimOwner] = {}
        self._groups: dict[Key, Uid] = {}
        self._templates: dict[Key, ResourceClaimTemplate] = {}
        self._users: dict[Key, set[Uid]] = {}
        """Owners by the template that they name."""

        self._recorded: dict[Key, set[Uid]] = {}
        """Owners by the claim that their status names."""

        self._members: dict[Key, set[Uid]] = {}
        """Pods by their PodGroup."""

        self._owned: dict[_OwnerKey, dict[Key, ResourceClaim]] = {}
        """Claims by their controller: anybody may write the uid of any object into a claim."""

        self._lacking: dict[Key, set[Uid]] = {}
        """Pods whose status does not name all their claims yet, by namespace: reservations may hold claims for them."""

        self._held: dict[str, dict[Key, ResourceClaim]] = {}
        """Claims that were generated for reservations, by namespace."""

        self.holders = ClaimHolders()

    def observe_pod(self, pod: Pod) -> None:
        """Record a pod from a list or a watch."""
        self._put(pod.metadata.uid, claim_owners.owner_from_pod(pod, reservations=self.holders.is_enabled))

    def observe_group(self, group: PodGroup) -> None:
        """Record a PodGroup from a list or a watch."""
        owner = claim_owners.owner_from_pod_group(group)
        predecessor = self._groups.get(owner.key, owner.uid)
        if predecessor != owner.uid:
            self.forget(predecessor)
        self._put(owner.uid, owner)
        self._groups[owner.key] = owner.uid
        self.dirty.update(self._members.get(owner.key, _NO_OWNERS))

    def forget(self, uid: Uid) -> None:
        """Forget a deleted owner; pods that wait for claims of a PodGroup may need claims of their own."""
        owner = self._owners.get(uid)
        self._put(uid, None)
        self.dirty.discard(uid)
        if owner is not None and self._groups.get(owner.key) == uid:
            del self._groups[owner.key]
            self.dirty.update(self._members.get(owner.key, _NO_OWNERS))

    def observe_groups_version(self, version: str) -> bool:
        """Record whether the API server serves PodGroups; return whether that changed, which affects all their pods."""
        if version == self.groups_version:
            return False
        self.groups_version = version
        self._mark_group_members_dirty()
        return True

    def observe_groups_readable(self, error: str) -> bool:
        """Record that all PodGroups are known, or why not; return whether that changed."""
        if (self.groups_known, self.groups_error) == (not error, error):
            return False
        self.groups_known, self.groups_error = not error, error
        self._mark_group_members_dirty()
        return True

    def _mark_group_members_dirty(self) -> None:
        for members in self._members.values():
            self.dirty.update(members)

    def mark_all_dirty(self) -> None:
        """Mark all owners: no decision has been made about them yet."""
        self.dirty.update(self._owners)

    def observe_template(self, template: ResourceClaimTemplate) -> None:
        """Record a template: claims of owners that wait for it are generated now."""
        key = template.metadata.key
        self._templates[key] = template
        self.dirty.update(self._users.get(key, _NO_OWNERS))

    def forget_template(self, key: Key) -> None:
        """Forget a deleted template; claims generated from it stay."""
        self._templates.pop(key, None)

    def observe_claim(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        """Record a claim: only its controller matters, and which future pods it is held for."""
        key, by = claim.metadata.key, _owner_key(claim)
        if before is not None and before.metadata.uid != claim.metadata.uid:
            self.forget_claim(before)
            before = None
        if before is not None and _owner_key(before) != by:
            self._disown(before)
        self._hold(claim)
        if before is None:
            self.dirty.update(self._recorded.get(key, _NO_OWNERS))
        if by is not None:
            known = self._owned.setdefault(by, {})
            owner = self._controller(claim)
            if key not in known and owner is not None:
                self.dirty.add(owner.uid)
            known[key] = claim
            if before is None and owner is not None and owner.kind is ClaimOwnerKind.POD_GROUP:
                self.dirty.update(self._members.get(owner.key, _NO_OWNERS))

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Forget a deleted claim: an owner whose status names it gets another one."""
        key = claim.metadata.key
        self.dirty.update(self._recorded.get(key, _NO_OWNERS))
        self._disown(claim)
        held = self._held.get(key[0], {})
        if held.pop(key, None) is not None and not held:
            del self._held[key[0]]

    def reservations_changed(self, namespaces: Iterable[str]) -> None:
        """Mark owners in these namespaces that lack claims as dirty: the claims held for them may have changed."""
        for namespace in namespaces:
            self.dirty.update(self._lacking.get((namespace, ""), _NO_OWNERS))

    def _hold(self, claim: ResourceClaim) -> None:
        key = claim.metadata.key
        if claim_holders.owner_reservations(claim):
            self._held.setdefault(key[0], {})[key] = claim
            self.reservations_changed([key[0]])

    def _disown(self, claim: ResourceClaim) -> None:
        key, by = claim.metadata.key, _owner_key(claim)
        if by is not None and by in self._owned:
            self._owned[by].pop(key, None)
            if not self._owned[by]:
                del self._owned[by]

    def claims_of(self, pod: Key, uid: Uid) -> frozenset[Key]:
        """Return the keys of the claims whose controller is that pod."""
        return frozenset(self._owned.get(_OwnerKey(pod[0], ClaimOwnerKind.POD, pod[1], uid), ()))

    def view(
        self,
        uid: Uid,
        *,
        claim: Callable[[Key], ResourceClaim | None],
        is_unfinished: Callable[[Uid], bool] = lambda _: True,
    ) -> ClaimOwnerView | None:
        """Return the view for a decision about the owner.

        ``claim`` finds claims by key; ``is_unfinished`` says whether a pod uses claims and has not ended.
        """
        owner = self._owners.get(uid)
        if owner is None:
            return None
        namespace = owner.key[0]
        group = self._owners.get(self._groups.get((namespace, owner.pod_group), Uid(""))) if owner.pod_group else None
        named = {
            s.resource_claim_name: claim((namespace, s.resource_claim_name))
            for s in owner.recorded
            if s.resource_claim_name
        }
        names = {entry.resource_claim_template_name for entry in owner.from_templates}
        templates = {name: self._templates.get((namespace, name)) for name in names if name}
        return ClaimOwnerView(
            owner=owner,
            group_unknown=bool(owner.pod_group)
            and group is None
            and (bool(self.groups_version) or not self.groups_known),
            group_error=self.groups_error,
            named={name: c for name, c in named.items() if c is not None},
            owned=self._claims(owner),
            templates={name: t for name, t in templates.items() if t is not None},
            group=group,
            group_owned=self._claims(group) if group is not None else (),
            held=tuple(self._held_for(owner, is_unfinished)),
        )

    def _held_for(self, owner: ClaimOwner, is_unfinished: Callable[[Uid], bool]) -> Iterator[HeldClaim]:
        """Yield the claims that reservations hold for a pod."""
        if owner.pod_info is None or owner.needs_no_claims:
            return
        for _, claim in sorted(self._held.get(owner.key[0], {}).items()):
            if claim.metadata.deleting:
                continue
            for reservation in self.holders.owner_reservations_of(claim):
                if self._is_for(owner, reservation, claim):
                    former = self._former(claim, reservation, is_unfinished)
                    if former is not None:
                        yield HeldClaim(claim=claim, reservation=reservation, former=former)

    def _is_for(self, owner: ClaimOwner, reservation: OwnerReference, claim: ResourceClaim) -> bool:
        if owner.placeholder_of is not None:
            return owner.placeholder_of.uid == reservation.uid
        info = self.holders.reservation(reservation.uid)
        return (
            info is not None
            and owner.pod_info is not None
            and claim.status.allocation is not None
            and owner.node in {"", info.node}
            and self.holders.state(reservation.name, reservation.uid) is HolderState.AVAILABLE
            and may_consume(info, owner.pod_info)
        )

    def _former(
        self, claim: ResourceClaim, reservation: OwnerReference, is_unfinished: Callable[[Uid], bool]
    ) -> str | None:
        """Return the pod that is about to leave a held claim; empty if no pod has the claim, None if a pod keeps it."""
        controller = claim.controller
        if controller is not None:
            known = self._controller(claim)
            leaves = known is None or known.needs_no_claims or known.placeholder_of is not None
            return f"{controller.kind.lower()} {controller.name}" if leaves else None
        others = [entry for entry in claim.entries if entry.uid != reservation.uid]
        if any(not entry.is_pod or is_unfinished(entry.uid) for entry in others):
            return None  # a pod that names the claim itself, and may use it as long as it likes
        if others:
            return f"pod {others[0].name}"  # the pod is gone, and its entry will be
        entered = claim.status.allocation is None or bool(claim.entries)
        return "" if entered else "the Reservation's placeholder"

    def _claims(self, owner: ClaimOwner) -> tuple[ResourceClaim, ...]:
        return tuple(claim for _, claim in sorted(self._owned.get(_key_of(owner), {}).items()))

    def _controller(self, claim: ResourceClaim) -> ClaimOwner | None:
        """Return the controller of a claim if it is in the index."""
        by = _owner_key(claim)
        owner = self._owners.get(by.uid) if by is not None else None
        return owner if owner is not None and _key_of(owner) == by else None

    def _put(self, uid: Uid, after: ClaimOwner | None) -> None:
        before = self._owners.get(uid)
        if before == after:
            return
        if before is not None:
            self._unindex(before)
            del self._owners[uid]
        if after is not None:
            self._owners[uid] = after
            self._index(after)
            self.dirty.add(uid)

    def _index(self, owner: ClaimOwner) -> None:
        for index, keys in self._keys(owner):
            for key in keys:
                index.setdefault(key, set()).add(owner.uid)

    def _unindex(self, owner: ClaimOwner) -> None:
        for index, keys in self._keys(owner):
            for key in keys:
                index[key].discard(owner.uid)
                if not index[key]:
                    del index[key]

    def _keys(self, owner: ClaimOwner) -> tuple[tuple[dict[Key, set[Uid]], set[Key]], ...]:
        """Return the indexes that contain an owner, with the owner's keys in each."""
        namespace = owner.key[0]
        templates = {entry.resource_claim_template_name for entry in owner.from_templates}
        claims = {status.resource_claim_name for status in owner.recorded}
        return (
            (self._users, {(namespace, name) for name in templates if name}),
            (self._recorded, {(namespace, name) for name in claims if name}),
            (self._members, {(namespace, owner.pod_group)} if owner.pod_group else set()),
            (self._lacking, {(namespace, "")} if _lacks_claims(owner) else set()),
        )


def _lacks_claims(owner: ClaimOwner) -> bool:
    return (
        owner.pod_info is not None
        and not owner.needs_no_claims
        and any(owner.record(e.name) is None for e in owner.from_templates)
    )


class _OwnerKey(NamedTuple):
    """The controller of a claim, as far as its reference says, in the namespace of the claim."""

    namespace: str
    kind: ClaimOwnerKind
    name: str
    uid: Uid


def _key_of(owner: ClaimOwner) -> _OwnerKey:
    return _OwnerKey(owner.key[0], owner.kind, owner.key[1], owner.uid)


def _owner_key(claim: ResourceClaim) -> _OwnerKey | None:
    """Return the pod or PodGroup that the controller reference of a claim names; None if it names none."""
    controller = claim.controller
    if controller is None:
        return None
    if claim.owning_pod is not None:
        kind = ClaimOwnerKind.POD
    elif is_pod_group(controller):
        kind = ClaimOwnerKind.POD_GROUP
    else:
        return None
    return _OwnerKey(claim.metadata.namespace, kind, controller.name, controller.uid)
