"""Trims the pods that the controller keeps: a hundred thousand of them, most made from few templates.

Pods of one controller have equal labels, owners, finalizers and claims; these are kept once, and so are words that
many pods have: phases, types of conditions, names of nodes and annotations. Of the conditions only those stay that a
rule reads.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import force_setattr

from dra.model import annotations
from dra.model.meta import Uid
from dra.model.pods import DISRUPTION_TARGET, POD_READY_TO_START_CONTAINERS, POD_SCHEDULED, Pod

READ_CONDITIONS: Final = frozenset({POD_SCHEDULED, POD_READY_TO_START_CONTAINERS, DISRUPTION_TARGET})
"""Types of the conditions of pods that rules read."""

OWNERS_MAX: Final = 10_000
"""Maximum number of owners whose last pod is remembered; after them, the memory starts anew."""


class WatchedPods:
    """The last pod of each owner, with which its next pod most often shares much."""

    def __init__(self, share: Callable[[str], str]) -> None:
        """Create the memory; ``share`` returns the one copy of a word, as `sys.intern` does."""
        self._share = share
        self._last: dict[Uid, Pod] = {}

    def trim(self, pod: Pod) -> None:
        """Trim a pod that was just decoded, in place, so that all references see the result; idempotent.

        Runs for each event of a pod: no loop over names of fields.
        """
        metadata, spec, status, share = pod.metadata, pod.spec, pod.status, self._share
        annotations.trim_annotations(metadata)
        if metadata.annotations:
            force_setattr(metadata, "annotations", {share(name): text for name, text in metadata.annotations.items()})
        force_setattr(spec, "node_name", share(spec.node_name))
        force_setattr(status, "phase", share(status.phase))
        if status.conditions:
            kept = [condition for condition in status.conditions if condition.type in READ_CONDITIONS]
            for condition in kept:
                force_setattr(condition, "type", share(condition.type))
                force_setattr(condition, "status", share(condition.status))
            if len(kept) < len(status.conditions):
                force_setattr(status, "conditions", kept or None)
        owners = metadata.owner_references
        if not owners:
            return
        last = self._last.get(owners[0].uid)
        if last is None:
            if len(self._last) >= OWNERS_MAX:
                self._last.clear()
        else:
            _share(pod, last)
        self._last[owners[0].uid] = pod


def _share(pod: Pod, last: Pod) -> None:
    """Replace parts of a pod by the equal parts of another one."""
    metadata, known = pod.metadata, last.metadata
    if metadata.owner_references == known.owner_references:
        force_setattr(metadata, "owner_references", known.owner_references)
    if metadata.namespace == known.namespace:
        force_setattr(metadata, "namespace", known.namespace)
    if metadata.labels == known.labels:
        force_setattr(metadata, "labels", known.labels)
    if metadata.finalizers == known.finalizers:
        force_setattr(metadata, "finalizers", known.finalizers)
    if pod.spec.resource_claims == last.spec.resource_claims:
        force_setattr(pod.spec, "resource_claims", last.spec.resource_claims)
