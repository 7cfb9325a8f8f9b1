"""Label selectors of affinity terms and spread constraints, with the keys whose values come from the pod itself."""

from collections.abc import Iterable, Mapping

import msgspec

from dra.model.nodes import NodeSelectorRequirement
from dra.model.preemption import LabelSelector


def with_label_keys(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    *,
    match: Iterable[str] | None = None,
    mismatch: Iterable[str] | None = None,
) -> LabelSelector | None:
    """Return a selector with requirements on the values that a pod has of some labels.

    A label that the pod lacks requires nothing. The API server has added them to the terms of pods that it created, so
    that they may be there twice. Without a selector nothing is selected, whatever the keys.
    """
    if selector is None or not (match or mismatch):
        return selector
    more = [_requirement(key, "In", labels) for key in match or () if key in labels]
    more += [_requirement(key, "NotIn", labels) for key in mismatch or () if key in labels]
    return msgspec.structs.replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])


def _requirement(key: str, operator: str, labels: Mapping[str, str]) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=[labels[key]])
