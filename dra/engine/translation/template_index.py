"""The templates that translated pods name, and these pods: what a decision about one template reads.

A decision looks at a pod once, after the pod has changed, and at all pods of a template only after the template or the
card sizes have changed: ten thousand pods may name one template.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.claims.reasons import Reason
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant, doubled
from dra.engine.plan import Plan
from dra.engine.translation import template_names
from dra.engine.translation.card_sizes import CardSizes
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Pod
from dra.model.resource_versions import is_newer
from dra.model.templates import ResourceClaimTemplate

REMAKE_INTERVAL: Final = 5.0
"""Minimum seconds between two deletions of a template of one name: card sizes may come and go."""

REFUSED: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before a refused creation is repeated, however many pods come to name the template."""


class TemplateUser(Struct, frozen=True):
    """A pod that names templates made from requests."""

    key: Key
    uid: Uid
    templates: Mapping[str, tuple[str, ...]]
    """Name of the template → names of the claims that the pod's status records for the entries."""

    is_waiting: bool
    """Whether the pod is neither bound, nor being deleted, nor at its end."""


class NamingPod(Struct, frozen=True):
    """A pod that names a template, with the claims that were generated for the pod from the template."""

    key: Key
    uid: Uid
    is_waiting: bool
    """Whether the pod is neither bound, nor being deleted, nor at its end."""

    claims: tuple[ResourceClaim, ...] = ()


class TemplateView(Struct, frozen=True):
    """The snapshot of one template, and everything that a decision about the template depends on."""

    key: Key
    template: ResourceClaimTemplate | None = None
    in_use: bool = False
    """Whether a pod names the template."""

    pods: tuple[NamingPod, ...] = ()
    """Pods that no decision has looked at since they changed."""

    changes: Mapping[Uid, int] = {}
    """The number of the last change of each of these pods."""

    card_sizes: tuple[int, ...] = ()
    default_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS
    """The bind policy of pods that name none."""
    pods_known: bool = True
    """Whether a pod that is not in the index does not exist."""

    created_from: Instant = -NEVER
    """When the template may be created: an earlier creation was refused."""

    deleted_from: Instant = -NEVER
    """When the template may be deleted: another one of its name was deleted."""


class _Refusals(Struct, frozen=True):
    """The refusals of a creation in a row."""

    number: int = 0
    until: Instant = -NEVER


class TemplateIndex(Cache[Key]):
    """The index of templates by name and of the pods that name them; ``dirty`` holds the templates to decide about."""

    def __init__(self, *, default_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self._default_policy = default_policy
        self.sizes = CardSizes()
        self._decided_sizes: tuple[int, ...] = ()
        self._pods: dict[Uid, TemplateUser] = {}
        self._users: dict[Key, set[Uid]] = {}
        self._changed: dict[Key, dict[Uid, int]] = {}
        """The users that no decision has looked at since they changed, with the number of the change."""

        self._changes = itertools.count(1)
        self._templates: dict[Key, ResourceClaimTemplate] = {}
        self._refused: dict[Key, _Refusals] = {}
        self._deleted: dict[Key, Instant] = {}
        self._reported: dict[Uid, set[str]] = {}
        """The notes of Events on each pod: a pod changes, and is decided about, several times until it runs."""

    def observe_pod(self, pod: Pod) -> None:
        """Record a pod from a list or a watch."""
        after = _user(pod)
        before = self._pods.get(pod.metadata.uid)
        if after is None or after == before:
            return
        self._pods[after.uid] = after
        for key in _keys(after):
            self._users.setdefault(key, set()).add(after.uid)
            self._changed.setdefault(key, {})[after.uid] = next(self._changes)
            self.dirty.add(key)

    def forget_pod(self, pod: Pod) -> None:
        """Forget a deleted pod."""
        uid = pod.metadata.uid
        self._reported.pop(uid, None)
        user = self._pods.pop(uid, None)
        for key in _keys(user) if user is not None else ():
            self._changed.get(key, {}).pop(uid, None)
            self._users[key].discard(uid)
            if not self._users[key]:
                del self._users[key]
                self._changed.pop(key, None)
                self.dirty.add(key)

    def observe_claim(self, claim: ResourceClaim) -> None:
        """Look again at the pod of a claim without an allocation: the pod may have been seen before the claim."""
        user = self._pods.get(claim.generated_for or Uid(""))
        if user is None or claim.status.allocation is not None:
            return
        namespace, name = claim.metadata.key
        for template, names in user.templates.items():
            if name in names:
                self._changed.setdefault((namespace, template), {})[user.uid] = next(self._changes)
                self.dirty.add((namespace, template))

    def observe_template(self, template: ResourceClaimTemplate) -> None:
        """Record a template from a list, a watch or the response to its creation."""
        key = template.metadata.key
        if template_names.parse(key[1]) is None:
            return
        known = self._templates.get(key)
        if known is not None and not is_newer(template.metadata.resource_version, known.metadata.resource_version):
            return
        self._templates[key] = template
        if known is None or known.metadata.uid != template.metadata.uid:
            self.mark_dirty(key)
        else:
            self.dirty.add(key)

    def forget_template(self, template: ResourceClaimTemplate) -> None:
        """Forget a template that is certainly deleted."""
        key, uid = template.metadata.key, template.metadata.uid
        known = self._templates.get(key)
        if known is not None and known.metadata.uid == uid:
            del self._templates[key]
            self.mark_dirty(key)

    def settle(self, *, now: Instant) -> None:  # noqa: ARG002 - the signature of a cache
        """Mark all templates after a batch that has changed the card sizes."""
        sizes = self.sizes.by_frequency()
        if sizes != self._decided_sizes:
            self._decided_sizes = sizes
            self.mark_all_dirty()

    def mark_dirty(self, key: Key) -> None:
        """Let the next decision about a template look at all of its users."""
        self.dirty.add(key)
        if key in self._users:
            self._changed[key] = dict.fromkeys(self._users[key], next(self._changes))

    def mark_all_dirty(self) -> None:
        """Mark all templates, named or existing: no decision has been made yet, or the card sizes have changed."""
        for key in (*self._users, *self._templates):
            self.mark_dirty(key)

    def creation_refused(self, view: TemplateView, *, now: Instant) -> None:
        """Record that a template was not created, and that Events on the pods in the view say so."""
        number = self._refused.get(view.key, _Refusals()).number + 1
        self._refused[view.key] = _Refusals(number=number, until=now + doubled(REFUSED, number - 1))
        self._looked_at(view)

    def template_deleted(self, key: Key, *, now: Instant) -> None:
        """Record that this process has deleted a template."""
        self._deleted = {other: when for other, when in self._deleted.items() if now - when < REMAKE_INTERVAL}
        self._deleted[key] = now

    def carried_out(self, view: TemplateView, plan: Plan[Any, Any]) -> None:
        """Record that a plan was carried out: the pods in the view are considered again once they have changed.

        Pods of a plan that only waits are looked at then.
        """
        if plan.wake_at == NEVER:
            self._refused.pop(view.key, None)
            self._looked_at(view)

    def _looked_at(self, view: TemplateView) -> None:
        changed = self._changed.get(view.key, {})
        for uid, number in view.changes.items():
            if changed.get(uid) == number:
                del changed[uid]
        if not changed:
            self._changed.pop(view.key, None)

    def newly_reported(self, reasons: Iterable[Reason]) -> list[Reason]:
        """Record reasons as reported, and return the new ones: each once on each pod that still exists."""
        new = []
        for reason in reasons:
            uid = reason.subject.uid
            if uid in self._pods and reason.note not in self._reported.get(uid, ()):
                self._reported.setdefault(uid, set()).add(reason.note)
                new.append(reason)
        return new

    def view(self, key: Key, *, claims: Mapping[Key, ResourceClaim], pods_known: bool) -> TemplateView:
        """Return the view for a decision about a template; ``claims`` are all claims."""
        changes = dict(sorted(self._changed.get(key, {}).items()))
        return TemplateView(
            key=key,
            template=self._templates.get(key),
            in_use=key in self._users,
            pods=tuple(
                NamingPod(
                    key=pod.key, uid=pod.uid, is_waiting=pod.is_waiting, claims=tuple(_claims(pod, key[1], claims))
                )
                for pod in map(self._pods.__getitem__, changes)
            ),
            changes=changes,
            card_sizes=self._decided_sizes,
            default_policy=self._default_policy,
            pods_known=pods_known,
            created_from=self._refused.get(key, _Refusals()).until,
            deleted_from=self._deleted.get(key, -NEVER) + REMAKE_INTERVAL,
        )


def _user(pod: Pod) -> TemplateUser | None:
    names = {
        entry.name: entry.resource_claim_template_name
        for entry in pod.spec.resource_claims or ()
        if entry.resource_claim_template_name and template_names.parse(entry.resource_claim_template_name) is not None
    }
    if not names:
        return None
    recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    claims: dict[str, list[str]] = {}
    for entry, template in names.items():
        claims.setdefault(template, []).extend(filter(None, [recorded.get(entry)]))
    return TemplateUser(
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        templates={template: tuple(claims_of_template) for template, claims_of_template in claims.items()},
        is_waiting=not (pod.spec.node_name or pod.metadata.deleting or pod.terminal),
    )


def _keys(pod: TemplateUser) -> Iterator[Key]:
    return ((pod.key[0], name) for name in pod.templates)


def _claims(pod: TemplateUser, template: str, claims: Mapping[Key, ResourceClaim]) -> Iterator[ResourceClaim]:
    """Yield the claims of a pod that were generated for it: a pod's status may be forged."""
    for name in pod.templates[template]:
        claim = claims.get((pod.key[0], name))
        if claim is not None and claim.generated_for == pod.uid:
            yield claim
