"""The pods that no Reservation admits yet because claims of these pods do not exist."""

from collections.abc import Container
from collections.abc import Set as AbstractSet

from dra.engine.reservations import pod_claims
from dra.model.meta import Key, Uid
from dra.model.pods import Pod


class MissingClaims:
    """The missing claims of pods, remembered until the claims are created."""

    def __init__(self, existing_claims: Container[Key]) -> None:
        self._existing_claims = existing_claims
        self._pods: dict[Key, set[Uid]] = {}
        self._claims: dict[Uid, tuple[Key, ...]] = {}

    def lacks_claims(self, pod: Pod) -> bool:
        """Return whether a claim of the pod does not exist or has no name yet; remember the missing claims."""
        self.forget(pod.metadata.uid)
        missing = pod_claims.missing_claims(pod, existing=self._existing_claims)
        if missing:
            self._claims[pod.metadata.uid] = missing
            for key in missing:
                self._pods.setdefault(key, set()).add(pod.metadata.uid)
        return bool(missing) or pod_claims.has_unnamed_claim(pod)

    def pods_waiting_for(self, claim: Key) -> AbstractSet[Uid]:
        """Return the pods that lacked a claim."""
        return self._pods.get(claim, frozenset())

    def forget(self, uid: Uid) -> None:
        """Forget the missing claims of a pod."""
        for key in self._claims.pop(uid, ()):
            self._pods[key].discard(uid)
            if not self._pods[key]:
                del self._pods[key]
