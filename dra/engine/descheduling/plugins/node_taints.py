"""Evict pods that do not tolerate a taint of their node.

Taints with effect NoExecute are not looked at: kube-controller-manager evicts for these.
"""

from dra.api.descheduler.pod_plugin_args import RemovePodsViolatingNodeTaintsArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.nodes import Taint


class RemovePodsViolatingNodeTaints:
    """Evicts pods that do not tolerate a taint with effect NoSchedule of their node."""

    name = "RemovePodsViolatingNodeTaints"
    Args = RemovePodsViolatingNodeTaintsArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingNodeTaintsArgs) -> Proposals:
        """Yield the pods that do not tolerate a taint that counts; return which nodes are drained by that.

        Cordoning a node taints it, so that all its pods may go in one round if no limit is set.
        """
        drained: list[str] = []
        for host, pods in pod_selection.selected_pods(snapshot, args):
            taints = [taint for taint in host.taints if _counts(taint, args)]
            repelled = {pod.metadata.uid: taint for pod in pods if (taint := _untolerated(pod, taints)) is not None}
            accepted = False
            for pod in pod_selection.cheapest_first(pod for pod in pods if pod.metadata.uid in repelled):
                taint = repelled[pod.metadata.uid]
                verdict = yield Evict(pod, f"does not tolerate taint {_text(taint)} of its node")
                accepted |= verdict.accepted
            if accepted and _is_drained(host):
                drained.append(host.name)
        if not drained:
            return None
        more = f" and {len(drained) - 1} more" if len(drained) > 1 else ""
        return f"node {drained[0]}{more}: all pods go in this round; maxNoOfPodsToEvictPerNode would spread that"


def _counts(taint: Taint, args: RemovePodsViolatingNodeTaintsArgs) -> bool:
    """Return whether a taint counts: by its effect, and by the lists of taints."""
    if taint.effect != "NoSchedule" and not (args.include_prefer_no_schedule and taint.effect == "PreferNoSchedule"):
        return False
    names = {taint.key, f"{taint.key}={taint.value}" if taint.value else taint.key}
    if args.included_taints is not None:
        return not names.isdisjoint(args.included_taints)
    return names.isdisjoint(args.excluded_taints)


def _untolerated(pod: DeschedulingPod, taints: list[Taint]) -> Taint | None:
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
