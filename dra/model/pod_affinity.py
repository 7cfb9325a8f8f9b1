"""Affinity and anti-affinity of pods to other pods, as far as they are required."""

from dra.model.meta import Struct
from dra.model.preemption import LabelSelector


class PodAffinityTerm(Struct, frozen=True):
    """A term of an affinity or anti-affinity to other pods."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    """An empty selector selects all namespaces; None selects none."""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAffinity(Struct, frozen=True):
    """``podAffinity`` or ``podAntiAffinity`` of a Pod, as far as it is required."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
