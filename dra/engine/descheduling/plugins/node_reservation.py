"""Evict pods from nodes whose reservation for other software was set, or raised, under running pods.

Annotation ``node.koordinator.sh/reservation`` keeps part of a node from pods; schedulers heed it for new pods, and
nobody takes away what running pods have requested already.
"""

from dra.api.descheduler.pod_plugin_args import RemovePodsViolatingNodeReservationArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model import quantities
from dra.model.quantities import Amounts, format_quantity


class RemovePodsViolatingNodeReservation:
    """Evicts pods, the cheapest first, until the rest leave free what their node reserves."""

    name = "RemovePodsViolatingNodeReservation"
    Args = RemovePodsViolatingNodeReservationArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingNodeReservationArgs) -> Proposals:
        """Yield pods that request a resource of which too much is requested, while that is the case.

        An annotation that cannot be read takes nothing away from running pods, unless a valid one is remembered.
        """
        unknown = ""
        for host, pods in pod_selection.selected_pods(snapshot, args):
            if host.reservation_error:
                unknown = unknown or f"node {host.name}: no pods go: {host.reservation_error}"
                continue
            leaving = _requests_of_leaving_pods(host, snapshot)
            if not _excess(host, leaving):
                continue
            for pod in pod_selection.cheapest_first(pods):
                excess = _excess(host, leaving)
                if not excess:
                    break
                resource = next((name for name in sorted(excess) if snapshot.requests(pod).get(name)), "")
                if resource:
                    left = host.allocatable_for_pods.get(resource, 0)
                    requested = left + excess[resource]
                    yield Evict(
                        pod,
                        f"{resource} requested on its node ({_show(host, resource, requested)}) is more than its node "
                        f"reservation leaves ({_show(host, resource, left)})",
                    )
        return unknown or None


def _requests_of_leaving_pods(host: SnapshotNode, snapshot: Snapshot) -> Amounts:
    """Return what pods request that are being deleted: soon they take nothing any more."""
    leaving = (pod for pod in host.pods.values() if pod.metadata.deleting and not pod.terminal)
    return quantities.total(snapshot.requests(pod) for pod in leaving)


def _excess(host: SnapshotNode, leaving: Amounts) -> dict[str, int]:
    """Return by how much the requests exceed what the node reservation leaves, for the resources that it reduces."""
    offered, left = host.allocatable, host.allocatable_for_pods
    reduced = (resource for resource, amount in offered.items() if left.get(resource, 0) < amount)
    excess = {
        resource: host.requested.get(resource, 0) - leaving.get(resource, 0) - left.get(resource, 0)
        for resource in reduced
    }
    return {resource: amount for resource, amount in excess.items() if amount > 0}


def _show(host: SnapshotNode, resource: str, amount: int) -> str:
    return format_quantity(amount, like=(host.node.status.allocatable or {}).get(resource, ""))
