"""May I? Reviews are answered and never stored. Whoever is let in may do everything: RBAC is not enforced here."""

from typing import Final

from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.kinds.name_validation import NameFormat
from localplane.objects import Object

GROUP: Final = "authorization.k8s.io"

_REASON: Final = "the local plane allows everything to whoever holds its token"


class SubjectAccessReviewStrategy(NoStatusStrategy):
    """One question, answered with yes."""

    def prepare_for_create(self, obj: Object) -> None:
        """Answer."""
        obj["status"] = {"allowed": True, "reason": _REASON}


class SubjectRulesReviewStrategy(NoStatusStrategy):
    """All that somebody may do."""

    def prepare_for_create(self, obj: Object) -> None:
        """Answer."""
        resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        obj["status"] = {"resourceRules": [resources], "nonResourceRules": [paths], "incomplete": False}


def _review_kind(name: str, plural: str, strategy: NoStatusStrategy, *, namespaced: bool = False) -> Kind:
    return Kind(
        group=GROUP,
        plural=plural,
        name=name,
        namespaced=namespaced,
        subresources=(),
        verbs=("create",),
        strategy=strategy,
        naming=NameFormat.ANY,
        is_virtual=True,
    )


KINDS: Final = (
    _review_kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", SubjectAccessReviewStrategy()),
    _review_kind("SubjectAccessReview", "subjectaccessreviews", SubjectAccessReviewStrategy()),
    _review_kind(
        "LocalSubjectAccessReview", "localsubjectaccessreviews", SubjectAccessReviewStrategy(), namespaced=True
    ),
    _review_kind("SelfSubjectRulesReview", "selfsubjectrulesreviews", SubjectRulesReviewStrategy()),
)
