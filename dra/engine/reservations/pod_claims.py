"""The claims of owner pods: a pod is nominated for the node of a Reservation only once all its claims exist.

Cluster autoscaler counts a nominated pod on its node, together with the pod's claims. If one of these claims does not
exist, or if the pod's status does not name the claim of a template, the autoscaler's whole loop ends with an error, and
does so at every scan (``setClusterStatePods``). kube-scheduler does not try such a pod, so nothing is lost: the
capacity stays with the placeholders until the claims exist.
"""

from collections.abc import Container
from collections.abc import Set as AbstractSet

from dra.model.meta import Key, Uid
from dra.model.pods import Pod, claim_names


class MissingClaims:
    """The missing claims of pods, remembered until the claims are created."""

    def __init__(self, existing_claims: Container[Key]) -> None:
        self._existing_claims = existing_claims
        self._pods: dict[Key, set[Uid]] = {}
        self._claims: dict[Uid, tuple[Key, ...]] = {}

    def lacks_claims(self, pod: Pod) -> bool:
        """Return whether a claim of the pod does not exist or has no name yet; remember the missing claims."""
        uid = pod.metadata.uid
        self.forget(uid)
        missing = missing_claims(pod, existing=self._existing_claims)
        if missing:
            self._claims[uid] = missing
            for key in missing:
                self._pods.setdefault(key, set()).add(uid)
        return bool(missing) or has_unnamed_claim(pod)

    def pods_waiting_for(self, claim: Key) -> AbstractSet[Uid]:
        """Return the pods that lacked a claim."""
        return self._pods.get(claim, frozenset())

    def forget(self, uid: Uid) -> None:
        """Forget the missing claims of a pod."""
        for key in self._claims.pop(uid, ()):
            self._pods[key].discard(uid)
            if not self._pods[key]:
                del self._pods[key]


def missing_claims(pod: Pod, *, existing: Container[Key]) -> tuple[Key, ...]:
    """Return the claims that the pod names and that are not among the existing claims."""
    keys = ((pod.metadata.namespace, name) for name in claim_names(pod))
    return tuple(key for key in keys if key not in existing)


def has_unnamed_claim(pod: Pod) -> bool:
    """Return whether the pod's status does not name the claim of a template.

    A status entry without a name counts, too: it means that no claim is needed, which the autoscaler does not know.
    """
    named = {status.name for status in pod.status.resource_claim_statuses or () if status.resource_claim_name}
    return any(not entry.resource_claim_name and entry.name not in named for entry in pod.spec.resource_claims or ())


def is_never_named(pod: Pod) -> bool:
    """Return whether the pod's status says of a template that no claim is needed: the status will never name one."""
    return any(not status.resource_claim_name for status in pod.status.resource_claim_statuses or ())
