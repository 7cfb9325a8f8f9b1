"""Evict pods in phase Failed, which nobody else removes before kube-controller-manager's limit of 12,500 ended pods."""

from dra.api.descheduler.pod_plugin_args import RemoveFailedPodsArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot

_FAILED = "Failed"


class RemoveFailedPods:
    """Evicts failed pods by age, reason, exit code and kind of owner."""

    name = "RemoveFailedPods"
    Args = RemoveFailedPodsArgs

    def deschedule(self, snapshot: Snapshot, args: RemoveFailedPodsArgs) -> Proposals:
        """Yield the failed pods that meet all criteria."""
        for _, pods in pod_selection.selected_pods(snapshot, args, with_ended=True):
            for pod in pod_selection.cheapest_first(pod for pod in pods if pod.status.phase == _FAILED):
                if reason := self._reason(pod, snapshot, args):
                    yield pod_selection.removal(pod, reason)
        return None

    def _reason(self, pod: DeschedulingPod, snapshot: Snapshot, args: RemoveFailedPodsArgs) -> str:
        """Return why a failed pod is to go; empty if it does not meet all criteria."""
        if snapshot.age(pod) < args.min_pod_lifetime_seconds:
            return ""
        if not set(args.exclude_owner_kinds).isdisjoint(pod_selection.owner_kinds(pod)):
            return ""
        statuses = list(pod_selection.container_statuses(pod, initial=args.including_init_containers))
        reasons = [*pod_selection.state_reasons(statuses), *filter(None, [pod.status.reason])]
        codes = list(pod_selection.exit_codes(statuses))
        if args.reasons and set(args.reasons).isdisjoint(reasons):
            return ""
        if args.exit_codes and set(args.exit_codes).isdisjoint(codes):
            return ""
        reason = next((reason for reason in reasons if not args.reasons or reason in args.reasons), "")
        code = next((code for code in codes if not args.exit_codes or code in args.exit_codes), None)
        details = [f"reason {reason}"] if reason else []
        details += [f"exit code {code}"] if code is not None else []
        return f"failed ({', '.join(details)})" if details else "failed"
