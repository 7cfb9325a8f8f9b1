"""Evict pods whose required anti-affinity another pod of the same topology domain violates.

Only the pod that carries the term goes, never the pod that the term matches. Which pods match, and where, is decided
as in kube-scheduler: namespaces, namespace selector and the labels of ``matchLabelKeys`` count, and a term has no
effect on nodes without its topology key. Pods that have ended, are being deleted, move already or are on a node
that is not ready are in nobody's way.
"""

from dra.api.descheduler.pod_plugin_args import RemovePodsViolatingInterPodAntiAffinityArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.anti_affinity import AntiAffinityPartners
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.snapshot import Snapshot


class RemovePodsViolatingInterPodAntiAffinity:
    """Evicts pods that must not run beside another pod; on each node low priority goes first."""

    name = "RemovePodsViolatingInterPodAntiAffinity"
    Args = RemovePodsViolatingInterPodAntiAffinityArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingInterPodAntiAffinityArgs) -> Proposals:
        """Yield pods in conflict; pods that were in conflict only with one that goes now are left alone."""
        partners = AntiAffinityPartners(snapshot)
        for host, pods in pod_selection.selected_pods(snapshot, args):
            in_conflict = [pod for pod in pods if partners.conflict(pod, host=host) is not None]
            for pod in pod_selection.cheapest_first(in_conflict):
                conflict = partners.conflict(pod, host=host)
                if conflict is None:  # the other pod goes
                    continue
                verdict = yield Evict(pod, str(conflict))
                if verdict.accepted:
                    partners.remove(pod)
        return partners.note()
