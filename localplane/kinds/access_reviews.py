"""Answers access reviews, which are never stored: every authenticated user may do everything, RBAC is not enforced."""

from typing import Final

from dra.model.name_validation import NameFormat
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object

GROUP: Final = "authorization.k8s.io"

_REASON: Final = "the local plane allows every request of an authenticated user"


class SubjectAccessReviewStrategy(NoStatusStrategy):
    """The strategy of access reviews, which allows every request."""

    def prepare_for_create(self, obj: Object) -> None:
        """Set the status of the review: allowed."""
        obj["status"] = {"allowed": True, "reason": _REASON}


class SubjectRulesReviewStrategy(NoStatusStrategy):
    """The strategy of rules reviews, which lists rules for everything."""

    def prepare_for_create(self, obj: Object) -> None:
        """Set the status of the review: all verbs on all resources."""
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
        name_format=NameFormat.ANY,
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
