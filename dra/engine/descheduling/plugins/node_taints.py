"""Evict pods that do not tolerate a taint of their node.

Taints with effect NoExecute are not looked at: kube-controller-manager evicts for these. A taint that only prefers
keeps no pod off, so that a pod could go from one such node to the next, round after round. While such taints count,
pods go only to nodes whose taints that count they tolerate.
"""

from collections.abc import Sequence
from typing import Final

from dra.api.descheduler.pod_plugin_args import RemovePodsViolatingNodeTaintsArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.nodes import Taint

_PREFERENCE: Final = "PreferNoSchedule"
_KNOWN_SETS_MAX: Final = 64
"""Maximum sets of nodes that are remembered: the authors of pods decide how many tolerations differ."""


class RemovePodsViolatingNodeTaints:
    """Evicts pods that do not tolerate a taint with effect NoSchedule of their node."""

    name = "RemovePodsViolatingNodeTaints"
    Args = RemovePodsViolatingNodeTaintsArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingNodeTaintsArgs) -> Proposals:
        """Yield the pods that do not tolerate a taint that counts; return which nodes are drained by that.

        Cordoning a node taints it, so that all its pods may go in one round if no limit is set.
        """
        drained: list[str] = []
        receivers = _Receivers(snapshot, args)
        for host, pods in pod_selection.selected_pods(snapshot, args):
            taints = [taint for taint in host.taints if _counts(taint, args)]
            repelled = {pod.metadata.uid: taint for pod in pods if (taint := _untolerated(pod, taints)) is not None}
            accepted = False
            for pod in pod_selection.cheapest_first(pod for pod in pods if pod.metadata.uid in repelled):
                taint = repelled[pod.metadata.uid]
                verdict = yield Evict(
                    pod,
                    f"does not tolerate taint {_text(taint)} of its node",
                    receivers=receivers.of(pod),
                    insists_on_place=taint.effect == _PREFERENCE,
                )
                accepted |= verdict.accepted
            if accepted and _is_drained(host):
                drained.append(host.name)
        if not drained:
            return None
        more = f" and {len(drained) - 1} more" if len(drained) > 1 else ""
        return f"node {drained[0]}{more}: all pods go in this round; maxNoOfPodsToEvictPerNode would spread that"


class _Receivers:
    """The nodes that may receive pods while taints count that keep no pod off."""

    def __init__(self, snapshot: Snapshot, args: RemovePodsViolatingNodeTaintsArgs) -> None:
        self._nodes: dict[tuple[Taint, ...], list[str]] = {}
        """Taints that count → the nodes that have them; empty if kube-scheduler's own filter is enough."""
        self._sets: dict[tuple[bool, ...], frozenset[str]] = {}
        if args.include_prefer_no_schedule:
            for name, host in snapshot.nodes.items():
                counting = tuple(taint for taint in host.taints if _counts(taint, args))
                self._nodes.setdefault(counting, []).append(name)

    def of(self, pod: DeschedulingPod) -> frozenset[str] | None:
        """Return the nodes all of whose taints a pod tolerates; None if any node may receive the pod."""
        if not self._nodes:
            return None
        tolerated = tuple(_untolerated(pod, taints) is None for taints in self._nodes)
        known = self._sets.get(tolerated)
        if known is None:
            if len(self._sets) >= _KNOWN_SETS_MAX:
                self._sets.clear()
            groups = zip(self._nodes.values(), tolerated, strict=True)
            known = self._sets[tolerated] = frozenset(name for names, are in groups if are for name in names)
        return known


def _counts(taint: Taint, args: RemovePodsViolatingNodeTaintsArgs) -> bool:
    """Return whether a taint counts: by its effect, and by the lists of taints."""
    if taint.effect != "NoSchedule" and not (args.include_prefer_no_schedule and taint.effect == _PREFERENCE):
        return False
    names = {taint.key, f"{taint.key}={taint.value}" if taint.value else taint.key}
    if args.included_taints is not None:
        return not names.isdisjoint(args.included_taints)
    return names.isdisjoint(args.excluded_taints)


def _untolerated(pod: DeschedulingPod, taints: Sequence[Taint]) -> Taint | None:
    """Return the first taint that a pod does not tolerate; None if there is none."""
    tolerations = pod.spec.tolerations or ()
    return next((taint for taint in taints if not any(by.tolerates(taint) for by in tolerations)), None)


def _text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _is_drained(host: SnapshotNode) -> bool:
    """Return whether only pods are left that have ended, are leaving, or come back to each node."""
    return all(
        pod.terminal or pod.metadata.deleting or "DaemonSet" in pod_selection.owner_kinds(pod)
        for pod in host.pods.values()
    )
