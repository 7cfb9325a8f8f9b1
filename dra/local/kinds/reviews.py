"""May I? Reviews are answered and never stored. Whoever is let in may do everything: RBAC is not enforced here."""

from typing import Final

from dra.local.kinds.kind import Kind, WholeStrategy
from dra.local.kinds.names import Naming
from dra.local.objects import Object

GROUP: Final = "authorization.k8s.io"

_REASON: Final = "the local plane allows everything to whoever holds its token"


class AccessReviewStrategy(WholeStrategy):
    """One question, answered with yes."""

    def prepare_create(self, obj: Object) -> None:
        """Answer."""
        obj["status"] = {"allowed": True, "reason": _REASON}


class RulesReviewStrategy(WholeStrategy):
    """All that somebody may do."""

    def prepare_create(self, obj: Object) -> None:
        """Answer."""
        resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        obj["status"] = {"resourceRules": [resources], "nonResourceRules": [paths], "incomplete": False}


def _review(name: str, plural: str, strategy: WholeStrategy, *, namespaced: bool = False) -> Kind:
    return Kind(
        group=GROUP,
        plural=plural,
        name=name,
        namespaced=namespaced,
        subresources=(),
        verbs=("create",),
        strategy=strategy,
        naming=Naming.ANY,
        transient=True,
    )


KINDS: Final = (
    _review("SelfSubjectAccessReview", "selfsubjectaccessreviews", AccessReviewStrategy()),
    _review("SubjectAccessReview", "subjectaccessreviews", AccessReviewStrategy()),
    _review("LocalSubjectAccessReview", "localsubjectaccessreviews", AccessReviewStrategy(), namespaced=True),
    _review("SelfSubjectRulesReview", "selfsubjectrulesreviews", RulesReviewStrategy()),
)
