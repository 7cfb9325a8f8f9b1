"""The vocabulary of node autoscalers: how a Node shows that it may be deleted, and how it is kept.

Cluster autoscaler and Karpenter look at pods to find out whether a node is in use. A ResourceClaim that stays allocated
without a pod does not count, so its node is deleted as an empty node.
"""

from enum import Enum
from typing import Final

from dra.model.nodes import Node

SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""Annotation of a Node that cluster autoscaler does not remove."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Annotation of a Node that Karpenter does not disrupt by choice (consolidation, drift)."""

KEEP_ANNOTATIONS: Final = (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT)
"""Annotations that keep a Node, one for each autoscaler."""

KEPT_NODE: Final = "reserve.dra/kept-node"
"""Annotation that lists the annotations which the controller has set on a Node to keep it, separated by commas."""

KEEP: Final = "true"
"""The only value with which these annotations keep a Node."""


class DeletionSign(Enum):
    """A sign that an autoscaler may delete a Node, the most certain first."""

    TO_BE_DELETED = ("taint ToBeDeletedByClusterAutoscaler", SCALE_DOWN_DISABLED)
    DISRUPTED = ("taint karpenter.sh/disrupted", DO_NOT_DISRUPT)
    CANDIDATE = ("taint DeletionCandidateOfClusterAutoscaler", SCALE_DOWN_DISABLED)  # some ten minutes earlier
    NODE_POOL = ("label karpenter.sh/nodepool", DO_NOT_DISRUPT)  # an empty node goes without any earlier sign

    def __init__(self, mark: str, keep_annotation: str) -> None:
        self.mark = mark
        self.keep_annotation = keep_annotation

    @property
    def key(self) -> str:
        """Return the key of the taint or label."""
        return self.mark.partition(" ")[2]

    @property
    def is_begun(self) -> bool:
        """Return whether the deletion has begun, so that no annotation prevents it."""
        return self in {DeletionSign.TO_BE_DELETED, DeletionSign.DISRUPTED}


def deletion_sign(node: Node) -> DeletionSign | None:
    """Return the most certain sign of deletion that a Node shows; None if it shows none.

    An annotation that keeps the Node cancels the signs of a deletion that has not begun.
    """
    meta = node.metadata
    marks = {taint.key for taint in node.spec.taints or ()} | {
        key for key in (DeletionSign.NODE_POOL.key,) if key in (meta.labels or {})
    }
    for sign in DeletionSign:
        if sign.key in marks and (sign.is_begun or meta.annotation(sign.keep_annotation) != KEEP):
            return sign
    return None
