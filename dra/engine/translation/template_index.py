"""The templates that translated pods name, and these pods: what a decision about one template reads.

A decision looks at a pod once, after the pod has changed, and at all pods of a template only after the template or the
card sizes have changed: ten thousand pods may name one template.
"""

from collections.abc import Callable, Iterator, Mapping

from dra.engine.translation import template_names
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Pod
from dra.model.resource_versions import is_newer
from dra.model.templates import ResourceClaimTemplate


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

    card_sizes: tuple[int, ...] = ()
    pods_known: bool = True
    """Whether a pod that is not in the index does not exist."""


class TemplateIndex:
    """The index of templates by name and of the pods that name them; ``dirty`` holds the templates to decide about."""

    def __init__(self) -> None:
        self.dirty: set[Key] = set()
        self._pods: dict[Uid, TemplateUser] = {}
        self._users: dict[Key, set[Uid]] = {}
        self._changed: dict[Key, set[Uid]] = {}
        """The users that no decision has looked at since they changed."""

        self._templates: dict[Key, ResourceClaimTemplate] = {}

    def observe_pod(self, pod: Pod) -> None:
        """Record a pod from a list or a watch."""
        after = _user(pod)
        before = self._pods.get(pod.metadata.uid)
        if after is None or after == before:
            return
        self._pods[after.uid] = after
        for key in _keys(after):
            self._users.setdefault(key, set()).add(after.uid)
            self._changed.setdefault(key, set()).add(after.uid)
            self.dirty.add(key)

    def forget_pod(self, uid: Uid) -> None:
        """Forget a deleted pod."""
        pod = self._pods.pop(uid, None)
        for key in _keys(pod) if pod is not None else ():
            for index in (self._users, self._changed):
                if key in index:
                    index[key].discard(uid)
                    if not index[key]:
                        del index[key]
            if key not in self._users:
                self.dirty.add(key)

    def has_pod(self, uid: Uid) -> bool:
        """Return whether a pod that names a template exists."""
        return uid in self._pods

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

    def forget_template(self, key: Key, uid: Uid) -> None:
        """Forget the template with that uid, which is certainly deleted."""
        known = self._templates.get(key)
        if known is not None and known.metadata.uid == uid:
            del self._templates[key]
            self.mark_dirty(key)

    def mark_dirty(self, key: Key) -> None:
        """Let the next decision about a template look at all of its users."""
        self.dirty.add(key)
        if key in self._users:
            self._changed[key] = set(self._users[key])

    def mark_all_dirty(self) -> None:
        """Mark all templates, named or existing: no decision has been made yet, or the card sizes have changed."""
        for key in self._users.keys() | self._templates.keys():
            self.mark_dirty(key)

    def view(
        self, key: Key, *, claim: Callable[[Key], ResourceClaim | None], card_sizes: tuple[int, ...], pods_known: bool
    ) -> TemplateView:
        """Return the view for a decision about a template; its pods count as looked at from then on.

        ``claim`` finds claims by key.
        """
        changed = (self._pods[uid] for uid in sorted(self._changed.pop(key, ())))
        return TemplateView(
            key=key,
            template=self._templates.get(key),
            in_use=key in self._users,
            pods=tuple(
                NamingPod(
                    key=pod.key, uid=pod.uid, is_waiting=pod.is_waiting, claims=tuple(_claims(pod, key[1], claim))
                )
                for pod in changed
            ),
            card_sizes=card_sizes,
            pods_known=pods_known,
        )


def _user(pod: Pod) -> TemplateUser | None:
    names = {
        entry.name: entry.resource_claim_template_name
        for entry in pod.spec.resource_claims or ()
        if entry.resource_claim_template_name and template_names.parse(entry.resource_claim_template_name) is not None
    }
    if not names:
        return None
    recorded = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    claims: dict[str, list[str]] = {}
    for entry, template in names.items():
        claims.setdefault(template, []).extend(filter(None, [recorded.get(entry)]))
    return TemplateUser(
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        templates={template: tuple(found) for template, found in claims.items()},
        is_waiting=not (pod.spec.node_name or pod.metadata.deleting or pod.terminal),
    )


def _keys(pod: TemplateUser) -> Iterator[Key]:
    return ((pod.key[0], name) for name in pod.templates)


def _claims(pod: TemplateUser, template: str, claim: Callable[[Key], ResourceClaim | None]) -> Iterator[ResourceClaim]:
    """Yield the claims of a pod that were generated for it: a pod's status may be forged."""
    for name in pod.templates[template]:
        found = claim((pod.key[0], name))
        if found is not None and found.generated_for == pod.uid:
            yield found
